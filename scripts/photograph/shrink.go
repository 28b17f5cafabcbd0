package main

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"slices"
)

// colours is how many a picture keeps: as many as a byte a pixel can name.
const colours = 256

// shrink writes a picture of a page again with few colours: those it has most of,
// all others as the nearest of them.
func shrink(raw []byte) ([]byte, error) {
	picture, err := png.Decode(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("read the picture: %w", err)
	}
	bounds := picture.Bounds()
	count := map[color.RGBA]int{}
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(picture.At(x, y)).(color.RGBA) }
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			count[at(x, y)]++
		}
	}
	palette := most(count)
	nearest := map[color.RGBA]uint8{}
	out := image.NewPaletted(bounds, palette)
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			c := at(x, y)
			i, ok := nearest[c]
			if !ok {
				i = uint8(palette.Index(c)) //nolint:gosec // 256 at most
				nearest[c] = i
			}
			out.SetColorIndex(x, y, i)
		}
	}
	var b bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(&b, out); err != nil {
		return nil, fmt.Errorf("write the picture: %w", err)
	}
	return b.Bytes(), nil
}

// most chooses the colours that a picture has most of, but no two that an eye
// would take for one, so that rare but bright ones have room.
func most(count map[color.RGBA]int) color.Palette {
	all := make([]color.RGBA, 0, len(count))
	for c := range count {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b color.RGBA) int {
		if count[a] != count[b] {
			return count[b] - count[a]
		}
		return key(a) - key(b)
	})
	for apart := 24; ; apart /= 2 {
		var chosen color.Palette
		for _, c := range all {
			if len(chosen) < colours && far(chosen, c, apart) {
				chosen = append(chosen, c)
			}
		}
		if len(chosen) >= min(colours, len(all)) || apart == 0 {
			return chosen
		}
	}
}

func key(c color.RGBA) int { return int(c.R)<<16 | int(c.G)<<8 | int(c.B) }

// far reports whether a colour differs from all others by a sum over its channels.
func far(others color.Palette, c color.RGBA, apart int) bool {
	for _, o := range others {
		b := o.(color.RGBA)
		if gap(c.R, b.R)+gap(c.G, b.G)+gap(c.B, b.B) < apart {
			return false
		}
	}
	return true
}

func gap(a, b uint8) int { return max(int(a)-int(b), int(b)-int(a)) }
