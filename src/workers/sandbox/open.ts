// Opens the sandboxes of tenants in test mode. A worker loads this file when it first performs a job of such a tenant.
import type { AddressHash } from '#core/addresses.ts'
import { requireVariable, type Config } from '#core/config.ts'
import type { Log } from '#core/log.ts'
import type { Vault } from '#core/secrets.ts'
import type { FinishedCall } from '#providers/http.ts'
import type { SandboxClients } from '#providers/sandbox-clients.ts'
import { carryOutAct } from './acts.ts'
import { sandboxClients } from './clients.ts'
import { openSandboxHost, type SandboxHost } from './host.ts'

export type Sandboxes = {
  host: SandboxHost
  /** Carries out an act of a person once. */
  carryOutAct(act: { tenant_id: string; id: string }): Promise<void>
  clientsOf(tenant_id: string, onCall: (provider: string, call: FinishedCall) => void): SandboxClients
}

export function openSandboxes({
  config,
  log,
  vault,
  hashOf,
}: {
  config: Config
  log: Log
  vault: Vault
  hashOf: AddressHash
}): Sandboxes {
  const host = openSandboxHost(config, log)
  return {
    host,
    carryOutAct: async (act) =>
      await carryOutAct({ host, vault, hashOf, address_key: requireVariable(config, 'ADDRESS_KEY') }, act),
    clientsOf: (tenant_id, onCall) => sandboxClients({ host, tenant_id, vault, hashOf, onCall }),
  }
}
