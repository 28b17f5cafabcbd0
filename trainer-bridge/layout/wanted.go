package layout

// Wanted marks the rows that the part places. It needs their lengths only and
// is for batches where [Config.NeedsBodies] is false.
func (w *Writer) Wanted(rows []Row, part Part, wanted []bool) error {
	packed := w.cfg.Layout == Packed
	count := len(rows)
	if packed {
		if err := w.pack(rows); err != nil {
			return err
		}
		count = len(w.bins)
	}
	first, end, err := w.window(count, part)
	if err != nil {
		return err
	}
	for i := range rows {
		at := i
		if packed {
			at = w.homes[i].bin
		}
		wanted[i] = at >= first && at < end
	}
	return nil
}

// window pads a number of rows up to what the part's arrays divide evenly and
// returns the part's range of them.
func (w *Writer) window(rows int, part Part) (first, end int, err error) {
	if err := part.Validate(); err != nil {
		return 0, 0, err
	}
	unit := lcm(w.cfg.Rows, part.world())
	total := max((rows+unit-1)/unit, 1) * unit
	if total > w.cfg.MaxRows {
		return 0, 0, &RowsError{Rows: total, Limit: w.cfg.MaxRows}
	}
	first, end = part.window(total)
	return first, end, nil
}
