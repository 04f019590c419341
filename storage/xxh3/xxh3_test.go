package xxh3

import (
	"fmt"
	"testing"
)

// pattern makes the inputs of which the sums below are.
func pattern(n int) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i*7 + 13*(i>>8))
	}
	return data
}

// sums were computed by libxxhash 0.8.1 (XXH3_64bits), at both sides of each length from which on
// something else is done.
var sums = []struct {
	length int
	sum    uint64
}{
	{0, 0x2d06800538d394c2},
	{1, 0xc44bdff4074eecdb},
	{2, 0x9093381c8763d62e},
	{3, 0xc3489259e968ad9e},
	{4, 0xd3d60c1519014e89},
	{5, 0x559935c0f3f7327f},
	{8, 0xb88dee77f6bf6980},
	{9, 0x03688dcad730d826},
	{16, 0x9da23836adf2be1e},
	{17, 0xf34c3c9cf5a112d1},
	{32, 0x99cb9ad0f1a11fbe},
	{33, 0xc077b45492d29cde},
	{64, 0x6efb76ff16f37561},
	{65, 0x2640848e9137156b},
	{96, 0x764d2d5db92942df},
	{97, 0x077acb7e5f4fd940},
	{128, 0x65f3c2c00fa93185},
	{129, 0x28065c6ec25f5b25},
	{200, 0x7c64f3b17285e96a},
	{240, 0x4917a75c0ef8eed7},
	{241, 0x541b19226f0052e8},
	{512, 0xbb93b415b7272611},
	{1024, 0xcbeb9f3a1aeccda2},
	{1025, 0xd95859bed3193f4f},
	{1088, 0x934c09a2e974e726},
	{2048, 0x8d032ce04bf3e086},
	{2049, 0xc9f1d11d16eef6f1},
	{5000, 0x80c417de53bda261},
}

func TestSums(t *testing.T) {
	for _, s := range sums {
		if got := Sum(pattern(s.length)); got != s.sum {
			t.Errorf("%d bytes: %016x, not %016x", s.length, got, s.sum)
		}
	}
}

// TestEveryLength compares a sum over the sums of all lengths below 3000 with libxxhash's.
func TestEveryLength(t *testing.T) {
	const want = 0x64903f6c60cd143b
	all := uint64(0)
	for n := range 3000 {
		all = all*31 + Sum(pattern(n))
	}
	if all != want {
		t.Errorf("%016x, not %016x", all, uint64(want))
	}
}

// TestRedisSums are the examples of Redis's documentation of DIGEST and of its tests.
func TestRedisSums(t *testing.T) {
	for text, want := range map[string]string{
		"Hello world": "b6acb9d84a38ff74",
		"v8lf0c11xh8ymlqztfd3eeq16kfn4sspw7fqmnuuq3k3t75em5wdizgcdw7uc26nnf961u2jkfzkjytls2kwlj7626sd": "00006c38adf31777",
	} {
		if got := fmt.Sprintf("%016x", Sum([]byte(text))); got != want {
			t.Errorf("%s: %s, not %s", text, got, want)
		}
	}
}

func BenchmarkSum(b *testing.B) {
	for _, n := range []int{8, 64, 1 << 10, 1 << 20} {
		data := pattern(n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.SetBytes(int64(n))
			for b.Loop() {
				Sum(data)
			}
		})
	}
}
