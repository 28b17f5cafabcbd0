package subjects

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"sync"
)

// Message structs (tasks, ledger entries, events, gauges) are msgpack maps keyed
// by the msgpack tags of their fields. Both directions are written here: the
// library this format is usually read with in Go takes the lengths of an
// attacker, truncates integers and leaves map keys in random order.

// EncodeMessage is the msgpack form of one of this package's message structs,
// given by value or pointer. Equal messages give equal bytes. A schema version
// of 0 is written as [SchemaVersion].
func EncodeMessage(v any) ([]byte, error) {
	rv := reflect.Indirect(reflect.ValueOf(v))
	if rv.Kind() != reflect.Struct {
		return nil, fmt.Errorf("encode %T: not a message struct", v)
	}
	b, err := appendValue(nil, rv)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	return b, nil
}

// DecodeMessage validates b and decodes it into v, a pointer to one of this
// package's message structs. Unknown fields are ignored; wrong types, integers
// that do not fit, fields that come twice and later schema versions are not.
func DecodeMessage(b []byte, v any) error {
	rv := reflect.ValueOf(v)
	if rv.Kind() != reflect.Pointer || rv.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("decode into %T: not a pointer to a message struct", v)
	}
	if err := Validate(b); err != nil {
		return err
	}
	d := decoder{cursor: cursor{b: b}, budget: expansion*len(b) + 1<<12}
	rv.Elem().SetZero()
	d.value(rv.Elem())
	if d.err != nil {
		return d.err
	}
	if f := rv.Elem().FieldByName("V"); f.IsValid() {
		return checkVersion(f.Int())
	}
	return nil
}

// expansion bounds the memory of a decoded message, in bytes per byte of it:
// honest ones need up to 4, an array of empty maps would take a hundred.
const expansion = 8

// field is one field of a message struct.
type field struct {
	name  string
	key   []byte // the name as it is written
	index int
	omit  bool // left out when zero
}

var plans sync.Map // reflect.Type -> []field

// plan lists the fields of a struct in their order.
func plan(t reflect.Type) []field {
	if p, ok := plans.Load(t); ok {
		return p.([]field)
	}
	var p []field
	for i := range t.NumField() {
		tag := t.Field(i).Tag.Get("msgpack")
		name, options, _ := strings.Cut(tag, ",")
		p = append(p, field{name: name, key: appendText(nil, name), index: i, omit: options == "omitempty"})
	}
	plans.Store(t, p)
	return p
}

func appendValue(b []byte, v reflect.Value) ([]byte, error) {
	switch v.Kind() {
	case reflect.Struct:
		return appendStruct(b, v, plan(v.Type()))
	case reflect.Int, reflect.Int32, reflect.Int64:
		return appendInt(b, v.Int()), nil
	case reflect.Uint32, reflect.Uint64:
		return appendUint(b, v.Uint()), nil
	case reflect.Float64:
		return appendFloat(b, v.Float()), nil
	case reflect.Bool:
		return appendBool(b, v.Bool()), nil
	case reflect.String:
		return appendText(b, v.String()), nil
	case reflect.Map:
		return appendFloats(b, v.Interface().(map[string]float64)), nil
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return appendBin(b, v.Bytes()), nil
		}
		return appendSlice(b, v)
	}
	return nil, fmt.Errorf("no wire form for %s", v.Type())
}

// appendSlice writes an array: columns of numbers without a look at each one's
// type, structs with one look at their fields.
func appendSlice(b []byte, v reflect.Value) (_ []byte, err error) {
	b = appendArrayLen(b, v.Len())
	switch t := v.Type().Elem(); t.Kind() {
	case reflect.Struct:
		fields := plan(t)
		for i := range v.Len() {
			if b, err = appendStruct(b, v.Index(i), fields); err != nil {
				return nil, err
			}
		}
		return b, nil
	case reflect.Int32, reflect.Int64, reflect.Uint64:
		switch column := v.Interface().(type) {
		case []int32:
			return appendInts(b, column), nil
		case []int64:
			return appendInts(b, column), nil
		case []uint64:
			for _, x := range column {
				b = appendUint(b, x)
			}
			return b, nil
		}
	}
	for i := range v.Len() {
		if b, err = appendValue(b, v.Index(i)); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func appendInts[T int32 | int64](b []byte, column []T) []byte {
	for _, x := range column {
		b = appendInt(b, int64(x))
	}
	return b
}

func appendStruct(b []byte, v reflect.Value, fields []field) (_ []byte, err error) {
	n := 0
	for i := range fields {
		if f := &fields[i]; !f.omit || !empty(v.Field(f.index)) {
			n++
		}
	}
	b = appendMapLen(b, n)
	for i := range fields {
		f := &fields[i]
		x := v.Field(f.index)
		if f.omit && empty(x) {
			continue
		}
		b = append(b, f.key...)
		if f.name == "v" && x.IsZero() {
			b = appendInt(b, SchemaVersion)
		} else if b, err = appendValue(b, x); err != nil {
			return nil, fmt.Errorf("field %q: %w", f.name, err)
		}
	}
	return b, nil
}

func empty(v reflect.Value) bool {
	if k := v.Kind(); k == reflect.Slice || k == reflect.Map {
		return v.Len() == 0
	}
	return v.IsZero()
}

// decoder reads a message into structs.
type decoder struct {
	cursor
	budget int // bytes of memory the rest may take
}

func (d *decoder) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		d.structure(v)
	case reflect.Int, reflect.Int32, reflect.Int64:
		if x := d.int(); v.OverflowInt(x) {
			d.fail("integer %d out of range", x)
		} else {
			v.SetInt(x)
		}
	case reflect.Uint32, reflect.Uint64:
		if x := d.uint(); v.OverflowUint(x) {
			d.fail("integer %d out of range", x)
		} else {
			v.SetUint(x)
		}
	case reflect.Float64:
		v.SetFloat(d.float())
	case reflect.Bool:
		v.SetBool(d.bool())
	case reflect.String:
		v.SetString(d.str())
	case reflect.Map:
		if m := floatMap(&d.cursor, math.MaxInt); m != nil {
			v.Set(reflect.ValueOf(m))
		}
	case reflect.Slice:
		d.slice(v)
	default:
		d.fail("no wire form for %s", v.Type())
	}
}

func (d *decoder) structure(v reflect.Value) {
	fields := plan(v.Type())
	next := 0 // they mostly come in order
	d.fields(func(key []byte) bool {
		for i := range fields {
			f := &fields[(next+i)%len(fields)]
			if string(key) == f.name {
				next += i + 1
				d.value(v.Field(f.index))
				return true
			}
		}
		return false
	})
}

func (d *decoder) slice(v reflect.Value) {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		v.SetBytes(append([]byte(nil), d.bin()...))
		return
	}
	n := d.arrayLen()
	if n > 0 {
		if d.budget -= n * int(v.Type().Elem().Size()); d.budget < 0 {
			d.fail("%d elements in too few bytes", n)
		}
	}
	if d.err != nil || n == 0 {
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), n, n))
	for i := range n {
		if d.value(v.Index(i)); d.err != nil {
			d.err = fmt.Errorf("element %d: %w", i, d.err)
			return
		}
	}
}
