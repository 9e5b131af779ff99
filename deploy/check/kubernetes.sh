#!/usr/bin/env bash
# The overlays: each is rendered by kustomize, with secrets that are made up, and compared with the schemas.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
if command -v kustomize > /dev/null; then render=(kustomize build)
elif kubectl kustomize --help > /dev/null 2>&1; then render=(kubectl kustomize)
else
  echo "neither kustomize nor kubectl is installed"
  exit 77
fi
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
cp -r deploy/kubernetes/. "$folder"
mkdir -p "$folder/overlays/minimal/secrets"
for secret in database_url_{owner,api,webhooks,worker,dashboard} redis_url encryption_key address_key \
  stripe_secret_key stripe_webhook_secret; do
  echo "not-a-secret" > "$folder/overlays/minimal/secrets/$secret"
done
sed -i 's/newTag: .* }/newTag: of-the-check }/' "$folder/overlays/minimal/kustomization.yaml"
mkdir "$folder/components/witness/secrets"
echo "not-a-secret" > "$folder/components/witness/secrets/witness_url"
cp -r "$folder/overlays/minimal" "$folder/overlays/witness"
sed -i 's/^# components:/components:/' "$folder/overlays/witness/kustomization.yaml"
for overlay in minimal production witness; do
  echo -n "$overlay: "
  "${render[@]}" "$folder/overlays/$overlay" > "$folder/rendered.yaml"
  node deploy/check/manifests.ts < "$folder/rendered.yaml"
  images=$(grep -c 'image: registry.example.com/sluice:of-the-check$' "$folder/rendered.yaml" || true)
  if ((images != 5)); then
    echo "$overlay: $images of 5 workloads have the image of overlays/minimal/kustomization.yaml" >&2
    exit 1
  fi
done
witnesses=$(grep -c 'secretName: sluice-witness-[0-9a-z]' "$folder/rendered.yaml" || true)
if ((witnesses != 3)); then
  echo "witness: $witnesses of 3 workloads read the secret of components/witness" >&2
  exit 1
fi
