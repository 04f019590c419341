module kedis

go 1.26

require (
	github.com/anishathalye/porcupine v1.1.0
	github.com/cespare/xxhash/v2 v2.2.0
	github.com/hashicorp/go-hclog v1.6.3
	github.com/linxGnu/grocksdb v1.7.14
	github.com/panjf2000/gnet/v2 v2.9.8
	github.com/redis/go-redis/v9 v9.7.0
	github.com/urfave/cli/v2 v2.27.7
	golang.org/x/sys v0.30.0
)

require (
	github.com/cpuguy83/go-md2man/v2 v2.0.7 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
	github.com/fatih/color v1.13.0 // indirect
	github.com/mattn/go-colorable v0.1.12 // indirect
	github.com/mattn/go-isatty v0.0.14 // indirect
	github.com/panjf2000/ants/v2 v2.12.1 // indirect
	github.com/russross/blackfriday/v2 v2.1.0 // indirect
	github.com/valyala/bytebufferpool v1.0.0 // indirect
	github.com/xrash/smetrics v0.0.0-20240521201337-686a1a2994c1 // indirect
	go.uber.org/multierr v1.11.0 // indirect
	go.uber.org/zap v1.28.0 // indirect
	golang.org/x/sync v0.11.0 // indirect
	gopkg.in/natefinch/lumberjack.v2 v2.2.1 // indirect
)
