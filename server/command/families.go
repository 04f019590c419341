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
		genericFamily(),
		expireFamily(),
		objectFamily(),
		scanFamily(),
		dumpFamily(),
		sortFamily(),
		databaseFamily(),
		transactionFamily(),
	}
}
