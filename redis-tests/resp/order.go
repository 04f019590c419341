package resp

import (
	"bytes"
	"slices"
)

// Sorted returns r with the elements of its aggregate in the order of their bytes, groups of width
// elements moving together (1 for members, 2 for field and value), so that two replies whose order
// means nothing can be compared. A map's entries always move as pairs. What can't be split into
// whole groups is returned as it is.
func Sorted(r Reply, width int) Reply {
	if r.Kind == Map {
		width = 2
	}
	if len(r.Elements) < 2*width || len(r.Elements)%width != 0 {
		return r
	}
	groups := slices.Collect(slices.Chunk(slices.Clone(r.Elements), width))
	slices.SortStableFunc(groups, func(a, b []Reply) int {
		for i := range a {
			if order := bytes.Compare(a[i].Raw, b[i].Raw); order != 0 {
				return order
			}
		}
		return 0
	})
	header := r.Raw[:bytes.IndexByte(r.Raw, '\n')+1]
	sorted := Reply{Kind: r.Kind, Raw: bytes.Clone(header), Elements: slices.Concat(groups...)}
	for _, element := range sorted.Elements {
		sorted.Raw = append(sorted.Raw, element.Raw...)
	}
	return sorted
}
