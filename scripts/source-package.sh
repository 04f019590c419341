# The source of a Debian package, for the scripts that build one: they source this file, which tells what they do in their names, and work in $work.

say() { printf '%s: %s\n' "$(basename "$0" .sh)" "$1" >&2; }
fail() {
	say "$1"
	exit 1
}

readonly mirror=http://deb.debian.org/debian
readonly suite=bookworm
readonly keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# Through apt, with lists of its own: the system's sources and lists stay as they are.
fetch_with_apt() { # package
	local state=$work/apt
	mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
	echo "deb-src [signed-by=$keyring] $mirror $suite main" >"$state/sources.list"
	local options=(-qq -o "Dir::Etc::sourcelist=$state/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$state/lists"
		-o "Dir::Cache=$state/cache" -o "APT::Sandbox::User=$(id -un)")
	apt-get "${options[@]}" update && apt-get "${options[@]}" source --download-only "$1"
}

# Where a package's files are is told by its first letter.
fetch_with_curl() { # package, tarball
	curl --fail --silent --show-error --location --output "$2" "$mirror/pool/main/${1:0:1}/$1/$2"
}

# Unpacks the tarball of a package's source, from a file that is here already or from Debian. Whichever way it comes, the checksum decides.
fetch_source() { # package, tarball, SHA-256, file or nothing
	if [ -n "$4" ]; then
		cp "$4" "$2"
	elif [ -r $keyring ] && command -v apt-get >/dev/null && fetch_with_apt "$1" && [ -e "$2" ]; then
		say "fetched Debian's source package $1"
	else
		need_command curl curl
		say "fetching $2 from $mirror"
		fetch_with_curl "$1" "$2" || fail "$2 could not be fetched; get one and name it: see the first lines of $0"
	fi
	echo "$3  $2" | sha256sum --check --status || fail "$2 does not have the SHA-256 $3"
	tar -xzf "$2"
}

need_command() { # command, package
	command -v "$1" >/dev/null || fail "$1 is missing; install $2"
}
