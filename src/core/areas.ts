// The areas of the API: each has paths of its own and can be switched off; one that is not built yet says so.

type AreaFacts = {
  /** All that begins with these is the area's. */
  paths: readonly string[]
  about: string
  /** Whether this version has its routes. */
  built: boolean
}

export const AREAS = {
  customers: { paths: ['/v1/customers'], about: 'Customer records.', built: true },
  payments: {
    paths: ['/v1/payments', '/v1/refunds'],
    about: 'Payments and refunds: authorize, capture, cancel, refund.',
    built: true,
  },
  payouts: { paths: ['/v1/payouts'], about: 'Payouts from a balance to a recipient.', built: false },
  wallet: { paths: ['/v1/wallet'], about: 'Balances, their transactions and top-ups.', built: false },
  recipients: { paths: ['/v1/recipients'], about: 'Whom payouts go to.', built: false },
  merchants: { paths: ['/v1/merchants'], about: 'On whose behalf payments are taken.', built: false },
  compliance: { paths: ['/v1/compliance'], about: 'Identity checks and decisions on them.', built: false },
  messages: { paths: ['/v1/messages'], about: 'Transactional email and SMS.', built: false },
  ai: { paths: ['/v1/ai'], about: 'AI tasks.', built: false },
  events: {
    paths: ['/v1/events', '/v1/webhook_endpoints', '/v1/webhook_deliveries'],
    about: 'What happened, and its delivery to webhook endpoints.',
    built: false,
  },
} as const satisfies Record<string, AreaFacts>

export type Area = keyof typeof AREAS
export const AREA_NAMES = Object.keys(AREAS) as Area[]

/** Which areas answer, which were switched off by name, and which this version does not have. */
export type AreaStates = { deployed: Area[]; switched_off: Area[]; not_deployed: Area[] }

export function areaStates(disabled: readonly string[]): AreaStates {
  const off = (area: Area) => disabled.includes(area)
  return {
    deployed: AREA_NAMES.filter((area) => AREAS[area].built && !off(area)),
    switched_off: AREA_NAMES.filter(off),
    not_deployed: AREA_NAMES.filter((area) => !AREAS[area].built && !off(area)),
  }
}
