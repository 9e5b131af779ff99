// The areas of the API. Each area has its own paths and scopes and can be switched off. Requests to an area that is not
// built yet are refused.
import { CHANNELS, type Channel } from '#core/addresses.ts'
import { ConfigError, type Config } from '#core/config.ts'
import { AI, EMAIL, IDENTITY, PAYMENTS, PAYOUTS, SMS, TOP_UPS } from '#core/config/providers.ts'
import type { VariableName } from '#core/config/variables.ts'

type AreaDefinition<Scope extends string> = {
  /** Every path that begins with one of these belongs to the area. */
  paths: readonly string[]
  /** The provider that performs the area's jobs. Absent when the area needs none. */
  provider?: string
  /** The variables with the provider's credentials. Absent if a process does not start without these variables. */
  credentials?: readonly VariableName[]
  /** The scopes of API keys, each with a description. */
  scopes: Readonly<Record<string, string>>
  /** The area's headings in the documentation, with descriptions. An area without headings is not built yet. */
  tags?: Readonly<Record<string, string>>
  /** For an area that is not built yet: the paths that will have a POST, each with the scope of that POST. */
  planned_posts?: Readonly<Record<string, Scope>>
}

const DEFINITIONS = {
  customers: {
    paths: ['/v1/customers'],
    tags: { customers: 'The people and companies that pay.' },
    scopes: { 'customer:write': 'create, change and delete customers' },
  },
  payments: {
    paths: ['/v1/payments', '/v1/refunds', '/v1/disputes'],
    provider: PAYMENTS.provider,
    tags: {
      payments:
        'Authorize, capture and cancel payments. Creating a payment holds the money; capturing it takes the money. [The life of a payment](/docs/guides/payments).',
      refunds: 'Give money back, in full or in parts. [Refunds and late failures](/docs/guides/refunds).',
      disputes: "Money that a buyer's bank asks back from you. [Disputes](/docs/guides/disputes).",
      reconciliation: "Known differences between our books and the processor's.",
    },
    scopes: {
      'payments:read':
        'read payments, their timelines and events, refunds, disputes, the test clock, and open drifts of resources that the key may read',
      'payments:write': 'create, capture, cancel and refund payments, and move the test clock',
    },
  },
  payouts: {
    paths: ['/v1/payouts'],
    provider: PAYOUTS.provider,
    tags: {
      payouts:
        'Pay a recipient from your balance. The amount is reserved at once. [Payouts](/docs/guides/payouts).',
    },
    scopes: {
      'payouts:read': 'read payouts and their timelines',
      'payouts:write': 'create, cancel and fail payouts',
    },
  },
  wallet: {
    paths: ['/v1/wallet'],
    provider: TOP_UPS.provider,
    tags: {
      wallet: 'Your balances and their transactions. [Balances and top-ups](/docs/guides/wallet).',
      top_ups: 'A top-up: money that you add to your balance.',
    },
    scopes: {
      'wallet:read': 'read balances, their transactions, top-ups and timelines of top-ups',
      'wallet:write': 'create top-ups of a balance',
    },
  },
  recipients: {
    paths: ['/v1/recipients'],
    tags: {
      recipients:
        'The people and companies you pay. [Recipients and merchants](/docs/guides/recipients-and-merchants).',
    },
    scopes: {
      'recipients:read': 'read recipients of payouts',
      'recipients:write': 'create, change and archive recipients',
    },
  },
  merchants: {
    paths: ['/v1/merchants'],
    tags: {
      merchants:
        'The businesses you take payments for. [Recipients and merchants](/docs/guides/recipients-and-merchants).',
    },
    scopes: { 'merchants:read': 'read merchants', 'merchants:write': 'create, change and archive merchants' },
  },
  compliance: {
    paths: ['/v1/compliance'],
    provider: IDENTITY.provider,
    tags: {
      verifications:
        'Whether customers, merchants and recipients are who they say they are. [Verifications](/docs/guides/kyc).',
    },
    scopes: {
      'compliance:read': 'read verifications and their timelines',
      'compliance:write': 'create and decide verifications, and request their links',
    },
  },
  messages: {
    paths: ['/v1/messages'],
    tags: {
      messages: 'Send email and SMS, singly or in batches. [Messages](/docs/guides/messages).',
      templates: 'Texts of messages with variables.',
      suppressions: 'Addresses and numbers that no longer get messages.',
    },
    scopes: {
      'messaging:read': 'read messages and their timelines, templates and their previews, suppressions',
      'messaging:write':
        'send email and SMS, also in batches, cancel messages, manage templates and suppressions',
    },
  },
  ai: {
    paths: ['/v1/ai'],
    provider: AI.provider,
    credentials: AI.credentials,
    tags: {
      ai_tasks:
        'Tasks for a language model: generate a text, classify one, extract data from one. [AI tasks](/docs/guides/ai-tasks).',
    },
    scopes: { 'ai:read': 'read AI tasks', 'ai:write': 'start and cancel AI tasks' },
  },
  events: {
    paths: ['/v1/events', '/v1/webhook_endpoints', '/v1/webhook_deliveries', '/v1/webhook_recoveries'],
    tags: {
      events: 'Everything that happened to your resources, in one order. [Events](/docs/guides/events).',
      webhook_endpoints:
        'URLs that your events are sent to. [Receiving events](/docs/guides/receiving-events).',
      feed_restarts: 'Gaps in the feed after the database lost changes.',
      lost_requests: 'Accepted requests that the database has lost.',
      webhook_deliveries: 'The deliveries of events to your endpoints, with all attempts.',
    },
    scopes: {
      'events:read': 'read events, webhook endpoints and their statistics, deliveries, recoveries',
      'webhooks:write':
        'manage webhook endpoints and rotate their secrets, test them, replay deliveries, recover',
    },
  },
} as const satisfies Record<string, AreaDefinition<string>>

export type Area = keyof typeof DEFINITIONS
/** A permission of an API key; each belongs to an area. */
export type Scope = { [Name in Area]: keyof (typeof DEFINITIONS)[Name]['scopes'] }[Area]

export const AREAS: typeof DEFINITIONS & Readonly<Record<Area, AreaDefinition<Scope>>> = DEFINITIONS
export const AREA_NAMES = Object.keys(AREAS) as readonly Area[]
export const SCOPES = Object.values(AREAS).flatMap(({ scopes }) => Object.keys(scopes)) as readonly Scope[]

/** The variables with the credentials of each channel's provider. */
export const CHANNEL_CREDENTIALS: Readonly<Record<Channel, readonly VariableName[]>> = {
  email: EMAIL.credentials,
  sms: SMS.credentials,
}

/**
 * The areas by state: available (`deployed`), listed in DISABLED_AREAS, not built yet, and without the credentials of
 * their provider. For messages, missing credentials are listed by channel: the area stays available, because messages
 * remain readable.
 */
export type AreaStates = {
  deployed: Area[]
  switched_off: Area[]
  not_deployed: Area[]
  without_credentials: Area[]
  channels_without_credentials: Channel[]
}

/** The states of all areas as configured. Outside production, missing credentials are reported only for channels. */
export function areasOf(config: Config): AreaStates {
  const in_production = config.NODE_ENV === 'production'
  const is_missing = (variable: VariableName) => config[variable] === undefined
  return {
    ...areaStates(config.DISABLED_AREAS, (variable) => in_production && is_missing(variable)),
    channels_without_credentials: CHANNELS.filter((channel) => CHANNEL_CREDENTIALS[channel].some(is_missing)),
  }
}

/**
 * The states of all areas. The list of channels without credentials stays empty. `disabled`: DISABLED_AREAS. Throws
 * ConfigError for a name that is not an area.
 */
export function areaStates(
  disabled: readonly string[],
  is_missing: (credential: VariableName) => boolean = () => false,
): AreaStates {
  const unknown_name = disabled.find((name) => !Object.hasOwn(AREAS, name))
  if (unknown_name !== undefined)
    throw new ConfigError(
      `DISABLED_AREAS: no area is called "${unknown_name}"; the areas are ${AREA_NAMES.join(', ')}`,
    )
  const enabled = AREA_NAMES.filter((area) => !disabled.includes(area))
  const built = enabled.filter((area) => AREAS[area].tags !== undefined)
  const lacksCredentials = (area: Area) => AREAS[area].credentials?.some(is_missing) === true
  return {
    deployed: built.filter((area) => !lacksCredentials(area)),
    switched_off: AREA_NAMES.filter((area) => disabled.includes(area)),
    not_deployed: enabled.filter((area) => !built.includes(area)),
    without_credentials: built.filter(lacksCredentials),
    channels_without_credentials: [],
  }
}
