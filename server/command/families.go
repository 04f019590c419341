package command

// families lists the files of commands.
func families() []Family {
	return []Family{
		connectionFamily(),
		stringFamily(),
		bitmapFamily(),
		hyperLogLogFamily(),
		hashFamily(),
		setFamily(),
		listFamily(),
		zsetFamily(),
		genericFamily(),
		expireFamily(),
		objectFamily(),
		scanFamily(),
		dumpFamily(),
		migrateFamily(),
		sortFamily(),
		databaseFamily(),
		transactionFamily(),
		replicationFamily(),
		pubSubFamily(),
		scriptFamily(),
		debugFamily(),
		configFamily(),
		aclFamily(),
		moduleFamily(),
		clusterFamily(),
		serverFamily(),
	}
}
