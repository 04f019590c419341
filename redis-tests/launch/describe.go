package launch

import (
	"fmt"
	"slices"
	"strings"

	"kedis/redis-tests/resp"
)

// DescribeStream tells all of a stream that isn't its entries, with its groups, their consumers and
// what is pending, but without times and how it is stored.
func DescribeStream(c *resp.Connection, key string) (string, error) {
	reply, err := c.Must("XINFO", "STREAM", key, "FULL", "COUNT", "0")
	if err != nil {
		return "", err
	}
	var b strings.Builder
	describe(&b, reply)
	return b.String(), nil
}

func describe(b *strings.Builder, r resp.Reply) {
	for i := 0; i+1 < len(r.Elements); i += 2 {
		name, value := string(r.Elements[i].Text), r.Elements[i+1]
		switch name {
		case "radix-tree-keys", "radix-tree-nodes", "seen-time", "active-time":
		case "groups", "consumers":
			fmt.Fprintln(b, name)
			for _, one := range value.Elements {
				describe(b, one)
			}
		case "pel", "pending": // id, consumer unless it is a consumer's, time, deliveries
			for _, p := range value.Elements {
				fmt.Fprintln(b, name, slices.Delete(p.Strings(), len(p.Elements)-2, len(p.Elements)-1))
			}
		default:
			fmt.Fprintln(b, name, value)
		}
	}
}

// DescribeTimes tells which fields of a hash expire, and when: none on a server that doesn't know
// of that.
func DescribeTimes(c *resp.Connection, key string) (string, error) {
	fields, err := c.Must("HKEYS", key)
	if err != nil || len(fields.Elements) == 0 {
		return "", err
	}
	names := fields.Strings()
	slices.Sort(names)
	line := []string{"HPEXPIRETIME", key, "FIELDS", fmt.Sprint(len(names))}
	reply, err := c.Do(append(line, names...)...)
	if err != nil {
		return "", err
	}
	var times []string
	for i, at := range reply.Elements {
		if n, _ := at.Integer(); n > 0 {
			times = append(times, fmt.Sprintf("%s until %d", names[i], n))
		}
	}
	return strings.Join(times, ", "), nil
}
