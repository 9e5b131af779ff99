// Creates a demo shop through the API. Each run creates the same data.
import type { Answer, Client } from './client.ts'
import type { Provider } from './providers.ts'

export type DemoOptions = {
  /** The Stripe emulator, which finishes the verifications of people. */
  stripe: Pick<Provider, 'control'>
  /** URLs of two receivers: one accepts events, and the other fails. */
  receivers: { well: string; failing: string }
  customers?: number
  payments?: number
}

const PERSON_NAMES = [
  'Ada Lovelace',
  'Grace Hopper',
  'Katherine Johnson',
  'Alan Turing',
  'Margaret Hamilton',
  'Edsger Dijkstra',
  'Barbara Liskov',
  'Donald Knuth',
  'Radia Perlman',
  'Tim Berners-Lee',
  'Hedy Lamarr',
  'Dennis Ritchie',
  'Annie Easley',
  'Ken Thompson',
  'Sophie Wilson',
  'Vint Cerf',
  'Frances Allen',
  'Niklaus Wirth',
  'Karen Jones',
  'John Backus',
  'Evelyn Berezin',
  'Leslie Lamport',
  'Mary Keller',
  'Tony Hoare',
  'Adele Goldberg',
  'Robin Milner',
  'Lynn Conway',
  'Edgar Codd',
  'Shafi Goldwasser',
  'Bjarne Stroustrup',
]
const GOODS = ['Desk lamp', 'Notebook, ruled', 'Fountain pen', 'Standing desk', 'Ink, 50 ml', 'Reading chair']
/** Most payments are in USD. The amounts suit the currency. */
const CURRENCIES: [code: string, min: number, max: number][] = [
  ['USD', 900, 48_000],
  ['USD', 2_500, 19_000],
  ['USD', 400, 9_900],
  ['EUR', 1_200, 32_000],
  ['GBP', 1_500, 21_000],
  ['JPY', 800, 42_000],
]
const CARDS = ['pm_card_visa', 'pm_card_visa', 'pm_card_mastercard', 'pm_card_amex']
const RECIPIENTS = [
  { name: 'Northwind Paper', type: 'account', destination: 'acct_success' },
  { name: 'Lighthouse Lamps', type: 'bank_account', destination: 'ba_success' },
  { name: 'Old Mill Carpentry', type: 'bank_account', destination: 'ba_noAccount' },
  { name: 'Inkwell Brothers', type: 'bank_account', destination: 'ba_manual' },
]

/** Creates the demo data in the client's tenant. Takes some seconds. */
export async function fillDemo(client: Client, options: DemoOptions): Promise<void> {
  const { customers: people = 30, payments = 120, receivers } = options
  const post = createPoster(client)
  for (const [name, url] of Object.entries(receivers))
    await post(`endpoint-${name}`, '/v1/webhook_endpoints', {
      url,
      types: name === 'well' ? ['*'] : ['payment.*', 'refund.*'],
      description: name === 'well' ? 'Order service' : 'Old reporting, to be moved',
    })
  const merchants = await runConcurrently(2, (n) =>
    post(`merchant-${n}`, '/v1/merchants', {
      legal_name: ['Paper and Light Ltd', 'Paper and Light GmbH'][n],
      display_name: ['Paper & Light', 'Papier & Licht'][n],
      country: ['GB', 'DE'][n],
      support_email: 'help@shop.example',
    }),
  )
  const customers = await runConcurrently(people, (n) => {
    const name = PERSON_NAMES[n % PERSON_NAMES.length]!
    const email = `${name.toLowerCase().replaceAll(/[^a-z]+/g, '.')}@people.example`
    return post(`customer-${n}`, '/v1/customers', {
      name,
      email,
      external_id: `c-${1000 + n}`,
      metadata: { plan: n % 3 === 0 ? 'business' : 'home' },
    })
  })
  await runConcurrently(payments, (n) => payment(client, n, customers, merchants))
  await wallet(client, post)
  await runConcurrently(Math.min(8, people), (n) => verification(n, customers[n]!.body.id, post, options))
  await messages(post, Math.min(14, people))
  await tasks(post)
}

/** Creates a payment and the events that follow it. */
async function payment(client: Client, n: number, customers: Answer[], merchants: Answer[]): Promise<void> {
  const post = createPoster(client)
  const random = numbers(n)
  const [currency, min, max] = CURRENCIES[Math.floor(random() * CURRENCIES.length)]!
  // Amounts are multiples of 50 minor units, as prices often are.
  const amount_minor = Math.floor((min + random() ** 2 * (max - min)) / 50) * 50
  const outcome = n === 3 ? 'disputed' : outcomeOf(random())
  const card = CARDS[Math.floor(random() * CARDS.length)]!
  const { body } = await post(`payment-${n}`, '/v1/payments', {
    amount_minor,
    currency,
    method: 'card',
    payment_method: METHODS[outcome] ?? card,
    customer_id: customers[Math.floor(random() * customers.length)]!.body.id,
    merchant_id: random() < 0.3 ? merchants[n % 2]!.body.id : null,
    description: `Order ${4200 + n}: ${GOODS[Math.floor(random() * GOODS.length)]}`,
    metadata: { order: String(4200 + n) },
  })
  if (['held', 'declined', 'asked'].includes(outcome)) return
  if (outcome === 'canceled')
    return void (await client.post(`/v1/payments/${body.id}/cancel`, { reason: 'abandoned' }))
  await client.post(`/v1/payments/${body.id}/capture`, {})
  if (outcome !== 'refunded' && outcome !== 'part_refunded') return
  await post(`refund-${n}`, `/v1/payments/${body.id}/refunds`, {
    ...(outcome === 'part_refunded' && { amount_minor: Math.max(1, Math.floor(amount_minor / 3)) }),
    reason: 'requested_by_customer',
  })
}

const METHODS: Record<string, string> = {
  declined: 'pm_card_chargeDeclinedInsufficientFunds',
  asked: 'pm_card_authenticationRequired',
  disputed: 'pm_card_createDispute',
}

function outcomeOf(chance: number): string {
  const fates: [upTo: number, outcome: string][] = [
    [0.62, 'captured'],
    [0.74, 'held'],
    [0.82, 'part_refunded'],
    [0.87, 'refunded'],
    [0.92, 'declined'],
    [0.96, 'canceled'],
    [1, 'asked'],
  ]
  return fates.find(([upTo]) => chance < upTo)![1]
}

type Poster = ReturnType<typeof createPoster>

async function wallet(client: Client, post: Poster): Promise<void> {
  await post('top-up-1', '/v1/wallet/top_ups', {
    amount_minor: 500_000,
    currency: 'usd',
    source: 'src_success',
  })
  await post('top-up-2', '/v1/wallet/top_ups', {
    amount_minor: 80_000,
    currency: 'usd',
    source: 'src_manual',
  })
  const recipients = await runConcurrently(RECIPIENTS.length, (n) =>
    post(`recipient-${n}`, '/v1/recipients', {
      ...RECIPIENTS[n],
      currency: 'usd',
      country: 'US',
      email: `accounts-${n}@suppliers.example`,
    }),
  )
  const balance = async () =>
    (await client.get('/v1/wallet/balances?currency=usd')).body[0]?.available_minor ?? 0
  await until(async () => (await balance()) > 100_000)
  await runConcurrently(8, (n) =>
    post(`payout-${n}`, '/v1/payouts', {
      amount_minor: [12_500, 8_040, 22_000, 3_115, 9_900, 15_000, 4_275, 6_300][n],
      currency: 'usd',
      recipient_id: recipients[n % recipients.length]!.body.id,
      description: `Invoice ${310 + n}`,
    }),
  )
}

async function verification(
  n: number,
  subject_id: string,
  post: Poster,
  { stripe }: DemoOptions,
): Promise<void> {
  const { body } = await post(`kyc-${n}`, '/v1/compliance/kyc', { subject_type: 'customer', subject_id })
  const status = ['verified', 'verified', 'requires_input', 'processing', null][n % 5]
  if (status === null || status === undefined || body.provider_reference === null) return
  await stripe.control('POST', `/identity/${body.provider_reference}/settle`, {
    status,
    ...(status === 'requires_input' && { reason: 'document_expired' }),
  })
}

async function messages(post: Poster, count: number): Promise<void> {
  await post('template-receipt', '/v1/messages/templates', {
    name: 'receipt',
    channel: 'email',
    subject: 'Your order {{ order }}',
    text: 'Thank you, {{ name }}. Your order {{ order }} is on its way.',
    html: '<p>Thank you, {{ name }}. Your order <b>{{ order }}</b> is on its way.</p>',
  })
  const hosts = [
    'people.example',
    'people.example',
    'people.example',
    'bounce.example',
    'people.example',
    'defer.example',
  ]
  await runConcurrently(count, (n) =>
    post(`email-${n}`, '/v1/messages/email', {
      to: [
        `${PERSON_NAMES[n % PERSON_NAMES.length]!.split(' ')[0]!.toLowerCase()}@${hosts[n % hosts.length]}`,
      ],
      template: 'receipt',
      variables: { name: PERSON_NAMES[n % PERSON_NAMES.length], order: String(4200 + n) },
      tags: ['receipt'],
    }),
  )
  const numbers = ['+14155550132', '+14155550177', '+15005550001', '+14155550190']
  await runConcurrently(numbers.length, (n) =>
    post(`sms-${n}`, '/v1/messages/sms', { to: numbers[n], body: `Your code is ${481_220 + n * 77}.` }),
  )
}

async function tasks(post: Poster): Promise<void> {
  const labels = ['delivery', 'refund', 'praise']
  const texts = ['Where is my delivery?', 'I want a refund.', 'Only praise: a fine lamp.', '[[refuse]]']
  await runConcurrently(texts.length, (n) =>
    post(`task-${n}`, '/v1/ai/tasks', { kind: 'classify', input: { text: texts[n], labels } }),
  )
  await post('task-reply', '/v1/ai/tasks', {
    kind: 'generate',
    input: { system: 'You write for a shop.', prompt: 'Answer: where is my order 4207?' },
  })
}

/** Error codes of refusals by a bank, a mail server or an SMS provider. */
const OUTCOMES = new Set(['payment_declined', 'payout_refused', 'email_send_failed', 'sms_send_failed'])

/**
 * Returns a function that posts with a fixed key for each item. A final refusal, such as a declined card, counts as a
 * response.
 */
function createPoster(client: Client) {
  return async (key: string, path: string, body: object): Promise<Answer> => {
    const answer = await client.post(path, { idempotency_key: `demo-${key}`, ...body })
    const code = answer.body?.error?.code
    if (answer.status >= 400 && !OUTCOMES.has(code))
      throw new Error(`${path} answered ${answer.status}: ${answer.text}`)
    return answer
  }
}

/** Calls `work` for 0 to `count` - 1, eight calls at a time, and returns the results in order. */
async function runConcurrently<T>(count: number, work: (n: number) => Promise<T>): Promise<T[]> {
  const results: T[] = []
  let next = 0
  const lane = async () => {
    for (let n = next++; n < count; n = next++) results[n] = await work(n)
  }
  await Promise.all(Array.from({ length: 8 }, lane))
  return results
}

async function until(holds: () => Promise<boolean>, limit_ms = 30_000): Promise<void> {
  const end = Date.now() + limit_ms
  while (!(await holds())) {
    if (Date.now() > end) throw new Error('The demo data was not created in time.')
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

/** A generator of numbers from 0 to 1 that depend only on `seed` (mulberry32). */
function numbers(seed: number): () => number {
  let state = (seed + 1) * 0x9e3779b9
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}
