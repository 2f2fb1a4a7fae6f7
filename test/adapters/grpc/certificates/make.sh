#!/bin/sh
# Creates the certificates for the tests of the safety kernel connection. Their keys are public; only these tests trust
# them. They are valid from 2020 to 2120; `expired.pem` expired in 2020.
set -eu
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

: > "$work/index.txt"
cat > "$work/ca.cnf" <<CNF
[ca]
default_ca = tests
[tests]
database = $work/index.txt
new_certs_dir = $work
rand_serial = yes
unique_subject = no
default_md = sha256
policy = any
[any]
commonName = supplied
CNF

request() { # name
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$work/$1-key.pem"
  openssl req -new -key "$work/$1-key.pem" -subj "/CN=$1 of tests" -out "$work/$1.csr"
}

sign() { # name, begin, end, output, how
  request=$work/$1.csr from=$2 until=$3 output=$4
  printf '%s\n' "$5" > "$work/ext"
  shift 5
  openssl ca -batch -notext -config "$work/ca.cnf" -extfile "$work/ext" -in "$request" \
    -startdate "${from}0101000000Z" -enddate "${until}0101000000Z" -out "$output" "$@"
}

authority() { # name
  request "$1"
  sign "$1" 2020 2120 "$1.pem" "basicConstraints=critical,CA:TRUE" -selfsign -keyfile "$work/$1-key.pem"
}

by_ca() {
  sign "$@" -cert ca.pem -keyfile "$work/ca-key.pem"
}

KERNEL="extendedKeyUsage=serverAuth
subjectAltName=DNS:localhost,DNS:kernel.test,IP:127.0.0.1,IP:::1"

authority ca
authority other-ca
for name in kernel elsewhere caller; do
  request $name
  cp "$work/$name-key.pem" .
done
by_ca kernel 2020 2120 kernel.pem "$KERNEL"
by_ca kernel 2019 2020 expired.pem "$KERNEL"
by_ca elsewhere 2020 2120 elsewhere.pem "extendedKeyUsage=serverAuth
subjectAltName=DNS:elsewhere.test"
by_ca caller 2020 2120 caller.pem "extendedKeyUsage=clientAuth"
# A key with a passphrase, which the kernel rejects.
openssl pkcs8 -topk8 -in kernel-key.pem -passout pass:tests -out locked-key.pem
