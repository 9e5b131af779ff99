#!/bin/bash
# Creates the database users of an installation, with the passwords in the secrets of its processes: the files
# database_url_owner, _api, _webhooks, _worker, _dashboard and _reports of FOLDER, each with the URL of its user, such as
# postgres://acme_owner:<password>@<host>/sluice. Run it once, as a superuser, in the database of Sluice, before the first
# migration.
#
#   deploy/postgres/create-users.sh [--as USER] FOLDER [OPTION OF PSQL...]
#   deploy/postgres/create-users.sh deploy/kubernetes/overlays/minimal/secrets -h db.example.com -U postgres -d sluice
#   deploy/postgres/create-users.sh --as postgres /etc/sluice/secrets -d sluice
#
# --as USER: as root, reads the files as root and runs psql as this user of the machine, for a server that authenticates its
# superuser by the user of the machine.
set -euo pipefail

psql=(psql)
if [[ ${1-} == --as ]]; then
  if ((EUID != 0)) || ! id "${2-}" > /dev/null; then
    echo "--as needs root, and a user of this machine" >&2
    exit 1
  fi
  # The environment is passed on.
  psql=(runuser -u "$2" -- psql)
  shift 2
fi

case ${1-} in
  '' | -*)
    sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
    [[ ${1-} == -h || ${1-} == --help ]]
    exit
    ;;
esac
folder=$1
shift

for user in owner api webhooks worker dashboard reports; do
  file=$folder/database_url_$user
  if [[ ! -e $file ]]; then
    echo "$file is missing: create it with" \
      "(umask 077; echo \"postgres://acme_$user:\$(openssl rand -hex 24)@<host>/<database>\" > $file)" >&2
    exit 1
  fi
  url=$(< "$file")
  if [[ ! $url =~ ^postgres(ql)?://acme_$user:(([^:@/?#%]|%[0-9A-Fa-f]{2})+)@ || ${BASH_REMATCH[2]} == *%00* ]]; then
    echo "$file: must be postgres://acme_$user:<password>@host:port/database" >&2
    exit 1
  fi
  # Programs of other users can read the arguments of psql, but not its environment. %40 and the like are decoded.
  password=${BASH_REMATCH[2]//\\/\\\\}
  printf -v "${user^^}_PASSWORD" '%b' "${password//%/\\x}"
  export "${user^^}_PASSWORD"
done
# The other user may not be able to read this folder.
"${psql[@]}" -qX "$@" -f - < "$(dirname "${BASH_SOURCE[0]}")/users.sql"
