# The RocksDB to build with; the Makefile includes this.
#
# `make release` builds a RocksDB of its own (scripts/build-rocksdb.sh), once, and bin/kedis with it. From then on every
# target uses that library. ROCKSDB=system takes the system's instead, ROCKSDB_MARCH=native one for this very processor.

ROCKSDB       ?= release
ROCKSDB_BUILD := ROCKSDB_MARCH='$(ROCKSDB_MARCH)' ROCKSDB_CACHE='$(ROCKSDB_CACHE)' ROCKSDB_JOBS='$(ROCKSDB_JOBS)' \
	ROCKSDB_SOURCE='$(ROCKSDB_SOURCE)' scripts/build-rocksdb.sh

ROCKSDB_PREFIX := $(shell $(ROCKSDB_BUILD) --prefix)
ifeq ($(ROCKSDB),release)
ifneq ($(wildcard $(ROCKSDB_PREFIX)/lib/librocksdb.a),)
# In front of the system's directories, so that these headers and static libraries are found first. A make that was
# called by this one has the flags already.
ifeq ($(findstring $(ROCKSDB_PREFIX),$(CGO_LDFLAGS)),)
export CGO_CFLAGS   := $(strip -O2 -g -I$(ROCKSDB_PREFIX)/include $(CGO_CFLAGS))
export CGO_CXXFLAGS := $(strip -O2 -g -I$(ROCKSDB_PREFIX)/include $(CGO_CXXFLAGS))
export CGO_LDFLAGS  := $(strip -O2 -g -L$(ROCKSDB_PREFIX)/lib $(CGO_LDFLAGS))
export GOFLAGS      := $(strip -tags=rocksdb_release $(GOFLAGS))
endif
endif
endif

.PHONY: rocksdb
rocksdb: ## build the optimized RocksDB that release links
	@$(ROCKSDB_BUILD) >/dev/null

.PHONY: release-dependencies
release-dependencies:
	@scripts/install-dependencies.sh release

# A second make, so that it sees the library that was built just now.
.PHONY: release
release: release-dependencies rocksdb ## build bin/kedis with that RocksDB
	@$(MAKE) --no-print-directory ROCKSDB=release build
