// The variables of the dashboard.
import { baseUrl, commaList, port, type VariableRow } from './row.ts'

export const DASHBOARD_VARIABLES = {
  DASHBOARD_PORT: [port(3002), '3002', 'port of the dashboard', ['dashboard']],
  DASHBOARD_URL: [
    baseUrl.optional(),
    'https://dashboard.example.com',
    'address where people reach the dashboard; needed unless they use this machine: requests for another host are refused',
    ['dashboard'],
  ],
  EMULATED: [
    commaList,
    'Stripe,Email',
    'emulated providers, which the dashboard shows as such; `npm start` sets it',
    ['dashboard'],
  ],
} as const satisfies Record<string, VariableRow>
