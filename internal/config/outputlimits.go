package config

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"kedis/internal/number"
)

// OutputLimit bounds the replies that a client has not read yet: it is disconnected when there are
// more bytes than Hard, or more than Soft for Seconds seconds. 0 is no limit.
type OutputLimit struct {
	Hard, Soft uint64
	Seconds    int64
}

// OutputLimits has a limit for each class of clients.
type OutputLimits struct{ Normal, Replica, PubSub OutputLimit }

func (l *OutputLimits) class(name string) *OutputLimit {
	switch strings.ToLower(name) {
	case "normal":
		return &l.Normal
	case "replica", "slave":
		return &l.Replica
	case "pubsub":
		return &l.PubSub
	}
	return nil
}

// outputLimits is groups of four words: a class and its limits. Classes that aren't named keep
// theirs.
func outputLimits() kind[OutputLimits] {
	return kind[OutputLimits]{
		expects: "normal, replica or pubsub, and its hard limit, soft limit and seconds, such as normal 256mb 64mb 60",
		list:    true,
		parse:   parseOutputLimits,
		// The reply has the old word for a replica, and the file the new one: both as in Redis.
		show: func(l OutputLimits) string {
			show := func(limit OutputLimit) string {
				return fmt.Sprint(limit.Hard, " ", limit.Soft, " ", limit.Seconds)
			}
			return "normal " + show(l.Normal) + " slave " + show(l.Replica) + " pubsub " + show(l.PubSub)
		},
		write: func(l OutputLimits) []string {
			write := func(class string, limit OutputLimit) string {
				return fmt.Sprint(class, " ", writeSize(limit.Hard), " ", writeSize(limit.Soft), " ", limit.Seconds)
			}
			return []string{write("normal", l.Normal), write("replica", l.Replica), write("pubsub", l.PubSub)}
		},
	}
}

func parseOutputLimits(text string, limits OutputLimits) (OutputLimits, error) {
	if text == "" {
		return limits, nil
	}
	words := strings.Split(text, " ")
	if len(words)%4 != 0 {
		return limits, reason("Wrong number of arguments in buffer limit configuration.")
	}
	for ; len(words) > 0; words = words[4:] {
		limit := limits.class(words[0])
		if limit == nil {
			return limits, reason("Invalid client class specified in buffer limit configuration.")
		}
		if !limit.parse(words[1:4]) {
			return limits, reason("Error in hard, soft or soft_seconds setting in buffer limit configuration.")
		}
	}
	return limits, nil
}

func (l *OutputLimit) parse(words []string) bool {
	var hardOK, softOK bool
	l.Hard, hardOK = number.ParseSize(words[0])
	l.Soft, softOK = number.ParseSize(words[1])
	var err error
	l.Seconds, err = strconv.ParseInt(cmp.Or(words[2], "0"), 10, 32) // nothing is 0, as in Redis
	return hardOK && softOK && err == nil && l.Seconds >= 0
}
