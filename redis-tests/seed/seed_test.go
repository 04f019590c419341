package seed

import "testing"

func TestOf(t *testing.T) {
	t.Setenv(Variable, "")
	own := Of(t)
	if again := Of(t); again != own {
		t.Error("a test's seed isn't always the same")
	}
	t.Run("another", func(t *testing.T) {
		if Of(t) == own {
			t.Error("two tests have the same seed")
		}
	})
	t.Setenv(Variable, "random")
	one := Of(t)
	if another := Of(t); another == one {
		t.Error("random seeds are the same")
	}
	t.Setenv(Variable, "17")
	if Of(t) != 17 {
		t.Error("the seed that was asked for is not taken")
	}
}
