// The banner of `npm start`, printed when all parts are ready.
import type { Area, AreaStates } from '#domain/areas.ts'

type BannerFacts = {
  api_url: string
  webhooks_url: string
  metrics_url: string
  api_key: string
  test_api_key: string
  dashboard: { url: string; email?: string; password?: string }
}

/** Example commands by area. Only the examples of deployed areas are printed. */
const EXAMPLES: { area: Area; commands: (facts: BannerFacts) => string }[] = [
  {
    area: 'customers',
    commands: ({ api_url, api_key }) => `Create a customer:

  curl -s ${api_url}/v1/customers -H 'Authorization: Bearer ${api_key}' \\
    -H 'Content-Type: application/json' -d '{"idempotency_key":"customer-1","email":"ada@example.com","name":"Ada"}'

`,
  },
  {
    area: 'payments',
    commands: ({ api_url, api_key }) => `Create and capture a payment:

  id=$(curl -s ${api_url}/v1/payments -H 'Authorization: Bearer ${api_key}' -H 'Content-Type: application/json' \\
    -d '{"idempotency_key":"payment-1","amount_minor":1000,"currency":"USD","method":"card","payment_method":"pm_card_visa"}' \\
    | sed 's/.*"id":"\\([^"]*\\)".*/\\1/')
  curl -s -X POST ${api_url}/v1/payments/$id/capture -H 'Authorization: Bearer ${api_key}'

`,
  },
  {
    area: 'messages',
    commands: ({ api_url, api_key }) => `Send an email, and see it in the inbox:

  curl -s ${api_url}/v1/messages/email -H 'Authorization: Bearer ${api_key}' -H 'Content-Type: application/json' \\
    -d '{"idempotency_key":"email-1","to":["Ada <ada@example.com>"],"subject":"Hello","text":"Your order has shipped."}'

`,
  },
  {
    area: 'ai',
    commands: ({ api_url, api_key }) => `Classify a text:

  curl -s ${api_url}/v1/ai/tasks -H 'Authorization: Bearer ${api_key}' -H 'Content-Type: application/json' -H 'Prefer: wait=10' \\
    -d '{"idempotency_key":"ticket-1","kind":"classify","input":{"text":"My card was charged twice.","labels":["delivery","charged"]}}'

`,
  },
]

/** `notes`: lines about embedded servers, emulators and areas. `areas`: the deployed areas. */
export function banner(facts: BannerFacts, notes: string[], areas: Area[], dev_file: string): string {
  const { api_url, webhooks_url, metrics_url, api_key, test_api_key, dashboard } = facts
  const examples = EXAMPLES.filter(({ area }) => areas.includes(area))
  return `
Sluice is running.

  API          ${api_url}
  API key      ${api_key}
  Test mode    ${test_api_key}
  Guides       ${api_url}/docs/guides
  Reference    ${api_url}/docs
  Dashboard    ${dashboard.url}${signInNote(dashboard)}
  Webhooks     ${webhooks_url}
  Metrics      ${metrics_url}/metrics
  ${notes.join('\n  ')}

${examples.map(({ commands }) => commands(facts)).join('')}The addresses, the keys and the password are also in ${dev_file}. Ctrl-C stops everything.
`
}

function signInNote({ email, password }: BannerFacts['dashboard']): string {
  return email === undefined ? '' : `\n               sign in as ${email} with the password ${password}`
}

/** The lines of the banner about areas. */
export function areaNotes({
  deployed,
  switched_off,
  not_deployed,
  without_credentials,
  channels_without_credentials,
}: AreaStates): string[] {
  return [
    `Areas        ${deployed.join(', ') || 'none'}`,
    ...(switched_off.length > 0 ? [`             switched off: ${switched_off.join(', ')}`] : []),
    ...(without_credentials.length > 0
      ? [`             without credentials: ${without_credentials.join(', ')}`]
      : []),
    ...(channels_without_credentials.length > 0
      ? [`             no provider: ${channels_without_credentials.join(', ')}`]
      : []),
    ...(not_deployed.length > 0 ? [`             not deployed: ${not_deployed.join(', ')}`] : []),
  ]
}
