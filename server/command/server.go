package command

import (
	"math/rand/v2"

	"kedis/server/lolwut"
	"kedis/server/observe"
)

func serverFamily() Family {
	return Family{Commands: append([]Command{
		commandCommand(),
		saveCommand(), bgSaveCommand(), lastSaveCommand(), bgRewriteAOFCommand(),
		{Name: "shutdown", Arity: -1, Flags: Admin | NoScript | Loading | Stale | NoMulti | AllowBusy | NoBatch, Run: cmdShutdown,
			Adapt: shutdownFlags,
			Group: "server", Since: "1.0.0",
			Complexity: "O(N) when saving, where N is the total number of keys in all databases when saving data, otherwise O(1)",
			Syntax:     "[NOSAVE | SAVE] [NOW] [FORCE] [ABORT]",
			Summary:    "Ends the server, with everything on disk, and with a checkpoint if that is asked for."},
		{Name: "lolwut", Arity: -1, Flags: ReadOnly | Fast, Run: cmdLolwut,
			Group: "server", Since: "5.0.0", Syntax: "[VERSION version] [size:integer [size:integer ...]]",
			Summary: "Draws a picture, and tells the server's version."},
	}, observe.Commands()...)}
}

// shutdownOptions are the words behind SHUTDOWN.
type shutdownOptions struct {
	save, noSave, now, force, abort bool
}

func parseShutdown(words [][]byte) (o shutdownOptions, err error) {
	for a := (arguments{words: words}); a.more(); {
		switch {
		case a.flag("nosave"):
			o.noSave = true
		case a.flag("save"):
			o.save = true
		case a.flag("now"):
			o.now = true
		case a.flag("force"):
			o.force = true
		case a.flag("abort"):
			o.abort = true
		default:
			return o, ErrSyntax
		}
	}
	if o.save && o.noSave || o.abort && (o.save || o.noSave || o.now || o.force) {
		return o, ErrSyntax
	}
	return o, nil
}

// shutdownFlags has SHUTDOWN SAVE run where it keeps nobody waiting.
func shutdownFlags(flags Flags, args [][]byte) Flags {
	if o, err := parseShutdown(args[1:]); err == nil && o.save {
		return flags | Walk
	}
	return flags
}

// cmdShutdown asks for the end. There is no reply: the connection closes with the server. What was
// acknowledged is durable in any case; SAVE makes a checkpoint besides, behind one that BGSAVE
// makes.
func cmdShutdown(c *Invocation) error {
	o, err := parseShutdown(c.Args[1:])
	switch {
	case err != nil:
		return err
	case o.abort:
		return Error("ERR No shutdown in progress.") // nothing delays one
	}
	if o.save && !c.Engine.Loading() { // as in Redis, what isn't loaded yet isn't saved
		if err := c.Engine.SaveInTurn(); err != nil && !o.force {
			return Error("ERR Errors trying to SHUTDOWN. Check logs.")
		}
	}
	if err := c.Engine.Server.Shutdown(); err != nil {
		c.Engine.Logger.Error("shutting down", "error", err)
		return Error("ERR Errors trying to SHUTDOWN. Check logs.")
	}
	c.Session.Suspend()
	return nil
}

// cmdLolwut draws the piece that VERSION names. Without it, words that are no sizes are ignored, as
// in Redis.
func cmdLolwut(c *Invocation) error {
	piece, words, named := int64(lolwut.Default), c.Args[1:], false
	if len(words) > 1 && equalFold(words[0], "version") {
		var err error
		if piece, err = parseInteger(words[1]); err != nil {
			return err
		}
		words, named = words[2:], lolwut.Known(piece)
	}
	var sizes []int64
	for _, word := range words {
		size, err := parseInteger(word)
		switch {
		case err == nil:
			sizes = append(sizes, size)
		case named:
			return err
		}
	}
	c.Reply.Verbatim("txt", lolwut.Draw(piece, sizes, rand.Uint64(), c.Engine.Version))
	return nil
}
