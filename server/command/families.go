package command

// families lists the files of commands.
func families() []Family {
	return []Family{
		connectionFamily(),
		stringFamily(),
		bitmapFamily(),
		hyperLogLogFamily(),
		listFamily(),
		zsetFamily(),
		transactionFamily(),
	}
}
