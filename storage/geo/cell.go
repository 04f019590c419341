package geo

// cell is one of the rectangles into which the world is divided by halving it step times in each
// direction. Columns are counted from the west and rows from the south; what lies on the border of
// the world in the east or north is one beyond the last.
type cell struct {
	column, row uint32
	step        int
}

// cellOf is the cell that a point lies in.
func cellOf(p Point, step int) cell {
	return cell{
		scale(p.Longitude, minLongitude, maxLongitude, step),
		scale(p.Latitude, minLatitude, maxLatitude, step),
		step,
	}
}

// scale says in which of the 1<<step parts of a range a value lies.
func scale(value, lowest, highest float64, step int) uint32 {
	return uint32((value - lowest) / (highest - lowest) * float64(uint64(1)<<step))
}

// number has the cell's bits in turns, those of the column first.
func (c cell) number() uint64 { return spread(c.column)<<1 | spread(c.row) }

// cellNumbered is the cell of the finest division with a number.
func cellNumbered(number uint64) cell { return cell{gather(number >> 1), gather(number), finest} }

// spread puts a zero before each bit.
func spread(bits uint32) uint64 {
	x := uint64(bits)
	x = (x | x<<16) & 0x0000FFFF0000FFFF
	x = (x | x<<8) & 0x00FF00FF00FF00FF
	x = (x | x<<4) & 0x0F0F0F0F0F0F0F0F
	x = (x | x<<2) & 0x3333333333333333
	return (x | x<<1) & 0x5555555555555555
}

// gather takes every other bit, the lowest first.
func gather(x uint64) uint32 {
	x &= 0x5555555555555555
	x = (x | x>>1) & 0x3333333333333333
	x = (x | x>>2) & 0x0F0F0F0F0F0F0F0F
	x = (x | x>>4) & 0x00FF00FF00FF00FF
	x = (x | x>>8) & 0x0000FFFF0000FFFF
	return uint32(x | x>>16)
}

// area is what lies between two longitudes and two latitudes.
type area struct{ west, south, east, north float64 }

func (c cell) area() area {
	parts := float64(uint64(1) << c.step)
	between := func(place uint32, lowest, highest float64) float64 {
		return lowest + float64(float64(place)/parts*(highest-lowest))
	}
	return area{
		west:  between(c.column, minLongitude, maxLongitude),
		east:  between(c.column+1, minLongitude, maxLongitude),
		south: between(c.row, minLatitude, maxLatitude),
		north: between(c.row+1, minLatitude, maxLatitude),
	}
}

// neighbour is the cell so many columns and rows away. Behind the end of the world it begins again
// on the other side.
func (c cell) neighbour(columns, rows int) cell {
	last := uint32(1)<<c.step - 1
	if columns != 0 {
		c.column = (c.column + uint32(columns)) & last
	}
	if rows != 0 {
		c.row = (c.row + uint32(rows)) & last
	}
	return c
}

// Range is a range of scores: from Min up to, but not including, Max.
type Range struct{ Min, Max uint64 }

// scores are the scores of the points in the cell.
func (c cell) scores() Range {
	number, shift := c.number(), 2*(finest-c.step)
	return Range{number << shift, (number + 1) << shift}
}
