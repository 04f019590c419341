package metrics

import (
	"strconv"
	"strings"
)

// Section is a part of INFO's reply.
type Section struct {
	Name  string // as its heading has it; clients ask for it in whatever case
	Extra bool   // shown only when asked for, by its name or by "all" or "everything"
	Write func(*Fields)
}

// Info is all sections in the order in which they are shown.
type Info []Section

// Append appends the reply to INFO with the given arguments: names of sections, "default" (which is
// also meant by no arguments), "all" and "everything". Unknown names are passed over, as in Redis.
func (info Info) Append(dst []byte, arguments ...[]byte) []byte {
	fields := Fields{out: dst}
	empty := true
	for _, section := range info {
		if !section.wanted(arguments) {
			continue
		}
		if !empty {
			fields.out = append(fields.out, "\r\n"...)
		}
		empty = false
		fields.out = append(append(append(fields.out, "# "...), section.Name...), "\r\n"...)
		section.Write(&fields)
	}
	return fields.out
}

func (s *Section) wanted(arguments [][]byte) bool {
	for _, argument := range arguments {
		name := string(argument)
		switch {
		case strings.EqualFold(name, "all"), strings.EqualFold(name, "everything"), strings.EqualFold(name, s.Name):
			return true
		case strings.EqualFold(name, "default") && !s.Extra:
			return true
		}
	}
	return len(arguments) == 0 && !s.Extra
}

// Fields takes a section's fields, in order.
type Fields struct{ out []byte }

// Text writes a field. An end of line in the value would look like another field, and becomes a
// space.
func (f *Fields) Text(name, value string) {
	f.name(name)
	from := len(f.out)
	f.out = append(f.out, value...)
	for i, c := range f.out[from:] {
		if c == '\r' || c == '\n' {
			f.out[from+i] = ' '
		}
	}
	f.end()
}

// Int writes a number.
func (f *Fields) Int(name string, value int64) {
	f.name(name)
	f.out = strconv.AppendInt(f.out, value, 10)
	f.end()
}

// Zeros writes fields that are always zero.
func (f *Fields) Zeros(names ...string) {
	for _, name := range names {
		f.Int(name, 0)
	}
}

// Bool writes 1 or 0.
func (f *Fields) Bool(name string, value bool) {
	if value {
		f.Int(name, 1)
	} else {
		f.Int(name, 0)
	}
}

// Float writes a number with so many decimals.
func (f *Fields) Float(name string, value float64, decimals int) {
	f.name(name)
	f.out = strconv.AppendFloat(f.out, value, 'f', decimals, 64)
	f.end()
}

// Percent writes a number of percent with two decimals and the sign.
func (f *Fields) Percent(name string, value float64) {
	f.Text(name, strconv.FormatFloat(value, 'f', 2, 64)+"%")
}

// Size writes a number of bytes, and once more with a unit in the field name_human.
func (f *Fields) Size(name string, bytes int64) {
	f.Int(name, bytes)
	f.Text(name+"_human", humanSize(bytes))
}

// Custom writes a value that write appends to what it is given, such as CommandStats.Append.
func (f *Fields) Custom(name string, write func(dst []byte) []byte) {
	f.name(name)
	f.out = write(f.out)
	f.end()
}

func (f *Fields) name(name string) { f.out = append(append(f.out, name...), ':') }

func (f *Fields) end() { f.out = append(f.out, "\r\n"...) }

// humanSize writes a size as Redis does: 512B, 1.50K, 23.54G. What is too large for its largest
// unit is in bytes again.
func humanSize(size int64) string {
	const letters = "KMGTP"
	if size < 1<<10 || size >= 1<<60 {
		return strconv.FormatInt(size, 10) + "B"
	}
	value := float64(size)
	unit := -1
	for value >= 1024 {
		value /= 1024
		unit++
	}
	return strconv.FormatFloat(value, 'f', 2, 64) + letters[unit:unit+1]
}
