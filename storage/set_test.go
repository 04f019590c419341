package storage

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kedis/internal/keyevent"
	"kedis/redis-tests/seed"
	"kedis/storage/layout"
	"kedis/storage/listpack"
)

// modelSet is a set as the model has it: members in the order in which they came, and the form that
// Redis 7.2 would give it.
type modelSet struct {
	members []string
	form    string // "intset", "listpack", "hashtable"; "" while it is empty
}

// modelLimits are set-max-intset-entries, set-max-listpack-entries and set-max-listpack-value.
const modelIntset, modelListpack, modelValue = 6, 9, 10

func isInteger(s string) bool {
	_, ok := listpack.ParseInt([]byte(s))
	return ok
}

func (m *modelSet) contains(member string) bool { return slices.Contains(m.members, member) }

// add adds a member where so many are expected; 1 where the command names one only.
func (m *modelSet) add(member string, expected int) bool {
	if m.contains(member) {
		return false
	}
	switch {
	case m.form == "" && isInteger(member) && expected <= modelIntset:
		m.form = "intset"
	case m.form == "" && expected <= modelListpack:
		m.form = "listpack"
	case m.form == "", m.form == "intset" && expected > modelIntset, m.form == "listpack" && expected > modelListpack:
		m.form = "hashtable"
	}
	longest := len(member)
	for _, other := range m.members {
		longest = max(longest, len(other))
	}
	m.members = append(m.members, member)
	switch {
	case m.form == "intset" && isInteger(member):
		if len(m.members) > modelIntset {
			m.form = "hashtable"
		}
	case m.form == "intset" && len(m.members) <= modelListpack && longest <= modelValue:
		m.form = "listpack"
		slices.SortFunc(m.members[:len(m.members)-1], byNumber)
	case m.form == "listpack" && len(m.members) <= modelListpack && len(member) <= modelValue:
	default:
		m.form = "hashtable"
	}
	return true
}

func byNumber(a, b string) int {
	x, _ := listpack.ParseInt([]byte(a))
	y, _ := listpack.ParseInt([]byte(b))
	return int(x - y)
}

func (m *modelSet) remove(member string) bool {
	at := slices.Index(m.members, member)
	if at < 0 {
		return false
	}
	m.members = slices.Delete(m.members, at, at+1)
	if len(m.members) == 0 {
		m.form = ""
	}
	return true
}

// inOrder are the members as the set shows them.
func (m *modelSet) inOrder() []string {
	members := slices.Clone(m.members)
	switch m.form {
	case "intset":
		slices.SortFunc(members, byNumber)
	case "hashtable":
		slices.Sort(members)
	}
	return members
}

type setModel map[string]*modelSet

func (m setModel) clone() setModel {
	c := setModel{}
	for key, s := range m {
		c[key] = &modelSet{slices.Clone(s.members), s.form}
	}
	return c
}

func (m setModel) get(key string) *modelSet {
	if m[key] == nil {
		m[key] = &modelSet{}
	}
	return m[key]
}

func TestSetsAgainstModel(t *testing.T) {
	for _, tier := range memories {
		t.Run(tier.name, func(t *testing.T) {
			seed := seed.Of(t)
			random := rand.New(rand.NewPCG(seed, 1))
			committed, now := setModel{}, setModel{}
			inTransactions(t, smallLimits(t.TempDir(), tier.generation, tier.cache), random, 150, func(db DB) {
				for range 1 + random.IntN(8) {
					changeSets(t, db, now, random)
					checkSets(t, db, now)
					checkCombinations(t, db, now, random)
				}
			}, func(kept bool) {
				if kept {
					committed = now
				}
				now = committed.clone()
			})
		})
	}
}

func randomMember(random *rand.Rand) string {
	switch random.IntN(12) {
	case 0:
		return strings.Repeat("m", random.IntN(12))
	case 1, 2:
		return "m" + strconv.Itoa(random.IntN(20))
	case 3:
		return strings.Repeat("9", 1+random.IntN(12))
	}
	return strconv.Itoa(random.IntN(20) - 5)
}

var setKeys = []string{"a", "b", "c", "d"}

func randomSets(random *rand.Rand) []string {
	keys := make([]string, 1+random.IntN(3))
	for i := range keys {
		keys[i] = setKeys[random.IntN(len(setKeys))]
	}
	return keys
}

// changeSets does the same to a set and to its model.
func changeSets(t *testing.T, db DB, m setModel, random *rand.Rand) {
	t.Helper()
	key := setKeys[random.IntN(len(setKeys))]
	s, err := db.Set([]byte(key))
	must(t, err)
	model := m.get(key)
	switch random.IntN(9) {
	case 0, 1, 2, 3:
		n := 1 + random.IntN(4)
		if random.IntN(4) == 0 {
			n = random.IntN(20)
		}
		member, same := randomMember(random), random.IntN(2) == 0
		s.Expect(n)
		for range n {
			if !same {
				member = randomMember(random)
			}
			added, err := s.Add([]byte(member))
			must(t, err)
			if want := model.add(member, n); added != want {
				t.Fatalf("adding %q: %v, want %v", member, added, want)
			}
		}
	case 4, 5:
		for range 4 {
			member := randomMember(random)
			removed, err := s.Remove([]byte(member))
			must(t, err)
			if want := model.remove(member); removed != want {
				t.Fatalf("removing %q: %v, want %v", member, removed, want)
			}
		}
	case 6:
		popMembers(t, &s, model, max(s.Len()-random.IntN(8), random.IntN(3)))
	case 7, 8:
		storeCombination(t, db, m, random)
		return
	}
	must(t, s.Save(keyevent.Changed))
}

// popMembers takes members out by chance, of which the model then takes out the same.
func popMembers(t *testing.T, s *Set, m *modelSet, count int) {
	t.Helper()
	before := len(m.members)
	popped, err := s.Pop(count)
	must(t, err)
	for _, member := range popped {
		if !m.remove(string(member)) {
			t.Fatalf("%q was popped, which is not there any more", member)
		}
	}
	if want := min(count, before); len(popped) != want {
		t.Fatalf("%d of %d members were popped, want %d", len(popped), before, want)
	}
	if rest := m.members; m.form == "hashtable" && len(rest)*5 <= count {
		// Redis makes a new set of the rest then, from a listpack on.
		*m = modelSet{form: "listpack"}
		slices.Sort(rest)
		for _, member := range rest {
			m.add(member, 1)
		}
	}
}

// combine are the members of a combination, in the order in which Redis finds them.
func (m setModel) combine(operation int, keys []string) []string {
	var found []string
	switch operation {
	case 0: // union
		for _, key := range keys {
			for _, member := range m.get(key).inOrder() {
				if !slices.Contains(found, member) {
					found = append(found, member)
				}
			}
		}
		return found
	case 1: // intersection
		keys = slices.Clone(keys)
		slices.SortStableFunc(keys, func(a, b string) int { return len(m.get(a).members) - len(m.get(b).members) })
	}
	for _, member := range m.get(keys[0]).inOrder() {
		in := 0
		for _, key := range keys[1:] {
			if m.get(key).contains(member) {
				in++
			}
		}
		if operation == 1 && in == len(keys)-1 || operation == 2 && in == 0 {
			found = append(found, member)
		}
	}
	return found
}

func (d DB) setsOf(t *testing.T, keys []string) []Set {
	t.Helper()
	words := make([][]byte, len(keys))
	for i, key := range keys {
		words[i] = []byte(key)
	}
	sets, err := d.Sets(words)
	must(t, err)
	return sets
}

// storeCombination makes one set a combination of others, and its model too.
func storeCombination(t *testing.T, db DB, m setModel, random *rand.Rand) {
	t.Helper()
	key, keys, operation := setKeys[random.IntN(len(setKeys))], randomSets(random), random.IntN(3)
	found := m.combine(operation, keys)
	result := modelStored(m, operation, keys, found)
	store := []func(DB, []byte, []Set) (int, error){DB.StoreUnion, DB.StoreIntersection, DB.StoreDifference}[operation]
	n, err := store(db, []byte(key), db.setsOf(t, keys))
	must(t, err)
	if n != len(found) {
		t.Fatalf("operation %d on %q stored %d members, want %q", operation, keys, n, found)
	}
	m[key] = result
}

// modelStored is a combination as Redis 7.2 stores it.
func modelStored(m setModel, operation int, keys, found []string) *modelSet {
	result := &modelSet{}
	if len(found) == 0 {
		return result
	}
	result.form = "intset"
	integers := !slices.ContainsFunc(found, func(member string) bool { return !isInteger(member) })
	switch {
	case operation == 1 && m.get(smallest(m, keys)).form != "intset":
		result.form = "listpack"
	case operation == 2 && subtractedAfterwards(m, keys):
		for _, member := range m.get(keys[0]).inOrder() {
			result.add(member, 1)
		}
		result.members = slices.DeleteFunc(result.members, func(member string) bool { return !slices.Contains(found, member) })
		return result
	}
	for _, member := range found {
		result.add(member, 1)
	}
	if operation == 1 && integers && len(found) <= modelIntset {
		result.form = "intset"
	}
	return result
}

func smallest(m setModel, keys []string) string {
	return slices.MinFunc(keys, func(a, b string) int { return len(m.get(a).members) - len(m.get(b).members) })
}

func subtractedAfterwards(m setModel, keys []string) bool {
	one, two := 0, 0
	for _, key := range keys {
		if n := len(m.get(key).members); n > 0 {
			one += len(m.get(keys[0]).members)
			two += n
		}
	}
	return one/2 > two
}

// checkSets compares all that can be read of each set.
func checkSets(t *testing.T, db DB, m setModel) {
	t.Helper()
	for _, key := range setKeys {
		model := m.get(key)
		s, err := db.Set([]byte(key))
		must(t, err)
		if s.Exists() != (len(model.members) > 0) || s.Len() != len(model.members) {
			t.Fatalf("%s exists %v with %d members, want %q", key, s.Exists(), s.Len(), model.members)
		}
		forms := map[layout.Encoding]string{0: "", layout.Intset: "intset", layout.Listpack: "listpack", layout.Spread: "hashtable"}
		if got := forms[s.next.Encoding]; got != model.form {
			t.Fatalf("%s is %q, want %q of %q", key, got, model.form, model.members)
		}
		got := []string{}
		must(t, s.All(func(member []byte) bool { got = append(got, string(member)); return true }))
		if want := model.inOrder(); !slices.Equal(got, want) {
			t.Fatalf("%s has the members %q, want %q", key, got, want)
		}
		for _, member := range append(got, "", "m1", "3", "03", "-3") {
			found, err := s.Contains([]byte(member))
			must(t, err)
			if found != model.contains(member) {
				t.Fatalf("%s contains %q: %v", key, member, found)
			}
		}
	}
}

// checkCombinations compares what several sets have to do with each other, as sets.
func checkCombinations(t *testing.T, db DB, m setModel, random *rand.Rand) {
	t.Helper()
	keys := randomSets(random)
	for operation, combine := range []func([]Set, func([]byte) bool) error{SetUnion, SetIntersection, SetDifference} {
		got := map[string]int{}
		must(t, combine(db.setsOf(t, keys), func(member []byte) bool { got[string(member)]++; return true }))
		want := map[string]int{}
		for _, member := range m.combine(operation, keys) {
			want[member] = 1
		}
		if !maps.Equal(got, want) {
			t.Fatalf("operation %d on %q: %v, want %v", operation, keys, got, want)
		}
	}
}

// TestLargeCombinations: sets of very different sizes, some of which are walked side by side and
// some asked member by member.
func TestLargeCombinations(t *testing.T) {
	txn := writingTxn(t)
	db, m := txn.DB(0), setModel{}
	for key, numbers := range map[string]func(i int) int{
		"a": func(i int) int { return i }, "b": func(i int) int { return 2 * i }, "c": func(i int) int { return 3 * i },
	} {
		s, err := db.Set([]byte(key))
		must(t, err)
		n := map[string]int{"a": 6000, "b": 1000, "c": 150}[key]
		for i := range n {
			member := "m" + strconv.Itoa(numbers(i))
			if key == "c" && i%2 == 0 {
				member = strconv.Itoa(i)
			}
			added, err := s.Add([]byte(member))
			must(t, err)
			if !added {
				t.Fatalf("%q was not new", member)
			}
			m.get(key).members = append(m.get(key).members, member)
		}
		must(t, s.Save(keyevent.Changed))
	}
	for _, keys := range [][]string{{"a", "b"}, {"b", "a"}, {"a", "c"}, {"c", "a"}, {"a", "b", "c"}, {"c", "b", "a"}, {"b", "c", "none"}} {
		for operation, combine := range []func([]Set, func([]byte) bool) error{SetUnion, SetIntersection, SetDifference} {
			var got []string
			must(t, combine(db.setsOf(t, keys), func(member []byte) bool { got = append(got, string(member)); return true }))
			want := m.combineLarge(operation, keys)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Fatalf("operation %d on %q: %d members, want %d", operation, keys, len(got), len(want))
			}
		}
	}
}

// combineLarge is combine for sets that are too large for it, sorted.
func (m setModel) combineLarge(operation int, keys []string) []string {
	in := map[string]int{}
	for i, key := range keys {
		for _, member := range m.get(key).members {
			if in[member]++; i > 0 && operation == 2 {
				in[member] = 2
			}
		}
	}
	var found []string
	for member, n := range in {
		if operation == 0 || operation == 1 && n == len(keys) || operation == 2 && n == 1 {
			found = append(found, member)
		}
	}
	slices.Sort(found)
	return found
}

// TestUnionOfIntegersThatOverflowAnIntset: members of a packed set are passed on in scratch memory,
// which must not be used again while the result becomes spread.
func TestUnionOfIntegersThatOverflowAnIntset(t *testing.T) {
	txn := openStore(t, smallLimits(t.TempDir(), 64<<20, 1<<20)).NewTxn()
	txn.Begin(Mode{Writing: true}, 1, 0)
	db := txn.DB(0)
	for key, from := range map[string]int{"a": 100, "b": 200} {
		s, err := db.Set([]byte(key))
		must(t, err)
		for i := range 5 {
			_, err := s.Add([]byte(strconv.Itoa(from + i)))
			must(t, err)
		}
		must(t, s.Save(keyevent.Changed))
	}
	_, err := db.StoreUnion([]byte("c"), db.setsOf(t, []string{"a", "b"}))
	must(t, err)
	s, err := db.Set([]byte("c"))
	must(t, err)
	var got []string
	must(t, s.All(func(member []byte) bool { got = append(got, string(member)); return true }))
	if want := []string{"100", "101", "102", "103", "104", "200", "201", "202", "203", "204"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// TestCombiningLargeMembers: sets of few members that are too large to be read at once are walked.
func TestCombiningLargeMembers(t *testing.T) {
	txn := writingTxn(t)
	const members, shared = 20, 7
	member := func(i int) []byte { return fmt.Appendf(bytes.Repeat([]byte{'m'}, 10<<10), "%03d", i) }
	for name, first := range map[string]int{"a": 0, "b": members - shared} {
		s, err := txn.DB(0).Set([]byte(name))
		must(t, err)
		for i := range members {
			_, err := s.Add(member(first + i))
			must(t, err)
		}
		must(t, s.Save(keyevent.Changed))
	}
	for name, c := range map[string]struct {
		combine     func(sets []Set, visit func(member []byte) bool) error
		first, want int
	}{
		"union":        {SetUnion, 0, 2*members - shared},
		"intersection": {SetIntersection, members - shared, shared},
		"difference":   {SetDifference, 0, members - shared},
	} {
		sets, err := txn.DB(0).Sets([][]byte{[]byte("a"), []byte("b")})
		must(t, err)
		seen := 0
		must(t, c.combine(sets, func(m []byte) bool {
			if want := member(c.first + seen); !bytes.Equal(m, want) {
				t.Fatalf("%s: member %d is one with %q at its end, want %q", name, seen, m[len(m)-3:], want[len(want)-3:])
			}
			seen++
			return true
		}))
		if seen != c.want {
			t.Errorf("the %s has %d members, want %d", name, seen, c.want)
		}
		stream, err := sets[0].stream()
		must(t, err)
		_, err = stream.next()
		must(t, err)
		if bytes := len(stream.buffer) * len(member(0)); bytes > streamBytes {
			t.Errorf("%d bytes are read at once", bytes)
		}
	}
}
