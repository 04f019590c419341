package rdb

// A module type is named by nine characters out of 64, at six bits each, and ten bits of version.
const moduleNameCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

func moduleName(id uint64) string {
	var name [9]byte
	id >>= 10
	for i := len(name) - 1; i >= 0; i-- {
		name[i] = moduleNameCharacters[id&63]
		id >>= 6
	}
	return string(name[:])
}

// refuseModule reads past a module's value, of which only the module itself knows what it means,
// and returns an error that names it.
func (d *Decoder) refuseModule(v *Value) error {
	id, err := d.src.length()
	if err != nil {
		return err
	}
	if err := d.skipModuleItems(); err != nil {
		return err
	}
	return &UnsupportedError{Type: v.Type, Module: moduleName(id)}
}

// skipModuleItems reads | kind | item | … | moduleEOF |.
func (d *Decoder) skipModuleItems() error {
	for {
		kind, err := d.src.length()
		if err != nil {
			return err
		}
		switch kind {
		case moduleEOF:
			return nil
		case moduleSigned, moduleUint:
			_, err = d.src.length()
		case moduleFloat:
			_, err = d.src.fixed(4)
		case moduleDouble:
			_, err = d.src.fixed(8)
		case moduleString:
			_, err = d.string(&d.second)
		default:
			err = d.src.corrupt("an item of kind %d in a module's value", kind)
		}
		if err != nil {
			return err
		}
	}
}
