#!/bin/bash
# Creates the secrets of compose.yaml in deploy/compose/secrets, one file each. Keeps the files that exist, so it can be
# run again. The folder is for this user only; the files can be read by the users of the containers.
#
#   deploy/compose/create-secrets.sh                                    the product with emulators
#   STRIPE_SECRET_KEY='<the secret key>' STRIPE_WEBHOOK_SECRET='<the signing secret>' \
#     deploy/compose/create-secrets.sh                                  the product with Stripe's test mode
#
# TWILIO_AUTH_TOKEN, SMTP_URL, EMAIL_WEBHOOK_SECRET, AI_API_KEY and WITNESS_URL are read in the same way. By default, all
# credentials are those of the emulators, and there is no WITNESS_URL. A variable that differs from its file is an error.
set -euo pipefail

case ${1-} in
  '') ;;
  -h | --help)
    sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"
    exit
    ;;
  *)
    echo "There is no option $1. See --help." >&2
    exit 1
    ;;
esac

umask 022
folder=$(dirname "$0")/secrets
mkdir -p "$folder"
chmod 700 "$folder"
cd "$folder"

# Writes standard input to the file, unless the file exists.
keep() {
  if [[ -e $1 ]]; then
    cat > /dev/null
    echo "$1: kept"
  else
    cat > "$1"
    echo "$1: created"
  fi
}
random() { openssl rand -hex 24; }

differs=0
for name in STRIPE_SECRET_KEY STRIPE_WEBHOOK_SECRET TWILIO_AUTH_TOKEN SMTP_URL EMAIL_WEBHOOK_SECRET AI_API_KEY WITNESS_URL; do
  file=${name,,}
  if [[ -n ${!name-} && -e $file && $(< "$file") != "${!name}" ]]; then
    echo "$PWD/$file: differs from $name. To use the new value, remove the file and run this again." >&2
    differs=1
  fi
done
if ((differs)); then
  echo "Nothing was changed. The database of the demo is of no use with other credentials: to remove it," >&2
  echo "  docker compose --env-file deploy/compose/demo.env down --volumes" >&2
  exit 1
fi

random | keep postgres_password
for user in owner api webhooks worker dashboard reports; do
  echo "postgres://acme_$user:$(random)@postgres:5432/sluice" | keep "database_url_$user"
done
password=$(random)
[[ -e redis_url ]] && password=$(sed 's|.*://:\([^@]*\)@.*|\1|' redis_url)
echo "redis://:$password@valkey:6379" | keep redis_url
echo "requirepass $password" | keep valkey.conf
openssl rand -base64 32 | keep encryption_key
openssl rand -base64 32 | keep address_key
echo "${STRIPE_SECRET_KEY:-sk_test_emulator}" | keep stripe_secret_key
echo "${STRIPE_WEBHOOK_SECRET:-whsec_$(random)}" | keep stripe_webhook_secret
echo "${TWILIO_AUTH_TOKEN:-$(random)}" | keep twilio_auth_token
echo "${SMTP_URL:-smtp://emulator:emulator@inbox:3012}" | keep smtp_url
echo "${EMAIL_WEBHOOK_SECRET:-whsec_$(openssl rand -base64 32)}" | keep email_webhook_secret
echo "${AI_API_KEY:-emulator}" | keep ai_api_key
echo "${WITNESS_URL-}" | keep witness_url
