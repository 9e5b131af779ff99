// The variables of the dashboard.
import { baseUrl, commaList, port, type VariableRow } from './row.ts'

export const DASHBOARD_VARIABLES = {
  DASHBOARD_PORT: [port(3002), '3002', 'port of the dashboard', ['dashboard']],
  DASHBOARD_URL: [
    baseUrl.optional(),
    'https://dashboard.example.com',
    'where people reach the dashboard; needed wherever that is not this machine: requests for another host are refused',
    ['dashboard'],
  ],
  EMULATED: [
    commaList,
    'Stripe,Email',
    'providers that are emulated, which the dashboard then says; set by `npm start`',
    ['dashboard'],
  ],
} as const satisfies Record<string, VariableRow>
