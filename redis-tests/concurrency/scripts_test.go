package concurrency

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// transferScript moves an amount between two accounts, which it finds by names that nobody declares.
const transferScript = `local from, to = "account:" .. ARGV[1], "account:" .. ARGV[2]
local amount = tonumber(ARGV[3])
if tonumber(redis.call("get", from)) < amount then return 0 end
redis.call("decrby", from, amount)
redis.call("incrby", to, amount)
return 1`

// sumScript adds up all accounts. They are declared, or not.
const sumScript = `local sum = 0
for i = 0, tonumber(ARGV[1]) - 1 do sum = sum + redis.call("get", "account:" .. i) end
return sum`

// TestScriptsWithUndeclaredKeys lets scripts move amounts between a few accounts, in orders that would deadlock, beside transactions and
// plain commands: no sum ever shows half of a transfer.
func TestScriptsWithUndeclaredKeys(t *testing.T) {
	const accounts, initial = 8, 1000
	server := launch.ForTest(t, launch.MustUnderTest(t))
	c := server.MustDial(t)
	for i := range accounts {
		if _, err := do(c, []string{"SET", scriptAccount(i), strconv.Itoa(initial)}); err != nil {
			t.Fatal(err)
		}
	}
	together(t, server, func(c *resp.Connection, number int, random *rand.Rand) error {
		for range 200 * *scale {
			if err := workOnAccounts(c, random, accounts, initial); err != nil {
				return err
			}
		}
		return nil
	})
}

func scriptAccount(i int) string { return "account:" + strconv.Itoa(i) }

// integer is the number that a reply is; -1 if it is none.
func integer(reply resp.Reply) int64 {
	if n, ok := reply.Integer(); ok {
		return n
	}
	return -1
}

func workOnAccounts(c *resp.Connection, random *rand.Rand, accounts, initial int) error {
	from, to, amount := random.IntN(accounts), random.IntN(accounts), strconv.Itoa(random.IntN(20))
	total := strconv.Itoa(accounts)
	sum := []string{"EVAL", sumScript, "0", total}
	sums := 0
	var requests [][]string
	switch random.IntN(6) {
	case 0, 1:
		requests = [][]string{{"EVAL", transferScript, "0", strconv.Itoa(from), strconv.Itoa(to), amount}, sum}
		sums = 1
	case 2:
		requests = [][]string{{"EVAL", transferScript, "1", scriptAccount(to), strconv.Itoa(from), strconv.Itoa(to), amount}}
	case 3:
		requests = [][]string{{"EVAL_RO", sumScript, "0", total}}
		sums = 1
	case 4:
		requests = [][]string{{"MULTI"}, {"DECRBY", scriptAccount(from), amount}, {"INCRBY", scriptAccount(to), amount}, {"EXEC"}, sum}
		sums = 1
	case 5:
		requests = [][]string{{"MULTI"}, {"EVAL", transferScript, "0", strconv.Itoa(from), strconv.Itoa(to), amount}, {"INCRBY", "other", "1"}, {"EXEC"}, sum}
		sums = 1
	}
	replies, err := do(c, requests...)
	if err != nil {
		return err
	}
	if sums == 1 && integer(replies[len(replies)-1]) != int64(accounts*initial) {
		return fmt.Errorf("the sum is %s", replies[len(replies)-1])
	}
	return nil
}

// TestScriptsOnWholeDatabases lets scripts that look at whole databases run beside those that write.
func TestScriptsOnWholeDatabases(t *testing.T) {
	server := launch.ForTest(t, launch.MustUnderTest(t))
	together(t, server, func(c *resp.Connection, number int, random *rand.Rand) error {
		for range 30 * *scale {
			name := fmt.Sprintf("pair:%d", random.IntN(20))
			replies, err := do(c,
				[]string{"EVAL", `redis.call("set", ARGV[1] .. ":a", 1) redis.call("set", ARGV[1] .. ":b", 1) return 1`, "0", name},
				[]string{"EVAL", `local n = #redis.call("keys", "pair:*") redis.call("set", "odd", n % 2) return n % 2`, "0"},
				[]string{"EVAL_RO", `return #redis.call("keys", "pair:*") % 2`, "0"},
				[]string{"EVAL", `redis.call("del", ARGV[1] .. ":a") for i = 1, 100000 do end redis.call("del", ARGV[1] .. ":b") return 1`, "0", name})
			if err != nil {
				return err
			}
			if integer(replies[1]) != 0 || integer(replies[2]) != 0 {
				return fmt.Errorf("half of a pair was seen: %s %s", replies[1], replies[2])
			}
		}
		return nil
	})
}
