#!/bin/sh
# Writes the demo's prose: Jane Austen's six novels (4 MB, 269 documents) out of Debian's package
# r-cran-janeaustenr. One document per chapter, a form feed between two documents, one line per
# paragraph.
#   tools/demo_text.sh OUT.txt
# The package is data for R but nothing of R is needed: an installed copy is read, and otherwise the
# package is fetched (1.6 MB, needs no root) and unpacked beside OUT.txt. Needs perl.
set -eu
out=${1:?usage: demo_text.sh OUT.txt}
package=r-cran-janeaustenr
data=usr/lib/R/site-library/janeaustenr/data/Rdata.rdb

if [ -e "/$data" ]; then
    data=/$data
else
    folder=$(cd "$(dirname "$out")" && pwd)/$package
    mkdir -p "$folder"
    download() {
        (cd "$folder" && apt-get -q -o APT::Sandbox::User=root download "$package" && dpkg-deb -x "$package"_*.deb .) \
            >"$folder/apt.log" 2>&1 </dev/null
    }
    if [ ! -e "$folder/$data" ]; then
        echo "demo_text.sh: fetching Debian's package $package (the prose)" >&2
        if ! download && ! { [ "$(id -u)" = 0 ] && apt-get -q update >/dev/null && download; }; then
            cat "$folder/apt.log" >&2
            echo "demo_text.sh: cannot fetch Debian's package $package; apt-get update, or apt-get install $package" >&2
            exit 1
        fi
    fi
    data=$folder/$data
fi

# Each novel is a zlib stream behind its length; within, each line of text stands behind
# 00 04 00 09 and its length.
perl -MCompress::Zlib -0777 -e '
    my ($rest, @documents) = (scalar <STDIN>);
    while (length $rest > 4) {
        my $stream = substr $rest, 4;
        my ($book, $status) = (inflateInit())[0]->inflate($stream);
        $status == Z_STREAM_END or die "not a stream of zlib\n";
        $rest = $stream;
        my $text = "";
        for (my $at = index $book, "\0\4\0\11"; $at >= 0 && $at + 8 <= length $book;) {
            my $bytes = unpack "N", substr $book, $at + 4, 4;
            $text .= substr($book, $at + 8, $bytes) . "\n";
            $at += 8 + $bytes;
        }
        my ($front, @chapters) = split /^chapter [ivxl\d]+\.?\s*\n/im, $text;
        for (@chapters) {
            s/^(volume [ivx]+|the end|finis)\s*$//gim;
            tr/_//d;                          # emphasis
            s/^\s+|\s+$//g;
            # Without notes in brackets, which the novels do not have.
            $_ = join "\n\n", map { s/\s+/ /gr } grep { !/^\s*\[/ } split /\n\s*\n/;
            push @documents, "$_\n";
        }
    }
    @documents or die "no chapters in the package\n";
    print join "\f", @documents;
' <"$data" >"$out.part"
mv "$out.part" "$out"
