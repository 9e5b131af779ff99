// The variables of the dashboard.
import { baseUrl, commaList, port, type VariableRow } from './row.ts'

export const DASHBOARD_VARIABLES = {
  DASHBOARD_PORT: [port(3002), '3002', 'port of the dashboard', ['dashboard']],
  DASHBOARD_URL: [
    baseUrl.optional(),
    'https://dashboard.example.com',
    'address where people reach the dashboard, in production by https; needed unless they use this machine: requests for another host are refused. The sandboxes of test mode, which are in workers, name it in the addresses of their pages',
    ['dashboard', 'worker'],
  ],
  EMULATED: [
    commaList,
    'Stripe,Email',
    'emulated providers, which the dashboard shows as such; `npm start` sets it',
    ['dashboard'],
  ],
} as const satisfies Record<string, VariableRow>

const THIS_MACHINE = /^(?:(?:[^.]+\.)*localhost|127(?:\.\d+){3}|\[::1\])$/

/** The reason why a dashboard URL is not accepted in production, or null. */
export function problemOfDashboardUrl(url: string): string | null {
  const { protocol, hostname } = new URL(url)
  return protocol === 'https:' || THIS_MACHINE.test(hostname)
    ? null
    : 'must begin with https:// in production, unless it is an address of this machine: passwords and sessions would travel unencrypted'
}
