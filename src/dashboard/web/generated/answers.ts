// Responses of the routes that the pages read. `npm run sdk` writes this.

import type {
  AcceptedRequest,
  AiTask,
  Customer,
  Dispute,
  Drift,
  DriftSide,
  DriftState,
  DriftSubject,
  FeedEvent,
  Merchant,
  Message,
  MessageTemplate,
  Payment,
  Payout,
  Recipient,
  Refund,
  Suppression,
  TestClock,
  TimelineEntry,
  TopUp,
  Verification,
  WalletBalance,
  WalletTransaction,
  WebhookDelivery,
  WebhookDeliveryDetail,
  WebhookDeliveryStatus,
  WebhookEndpoint,
  WebhookEndpointStats,
  WebhookRecovery,
} from '#sdk/index.ts'

interface OverviewShape {
  currencies: {
    /** ISO 4217 currency code, in lower case. */
    currency: string
    /** The last 60 days, oldest first; the last one is today. */
    days: {
      /** The day, UTC. */
      day: string
      /** Captured payments. */
      captured: number
      /** The captured amount. */
      captured_minor: number
      /** Successful refunds, including those that failed later. */
      refunded: number
      /** The refunded amount, including refunds that failed later. */
      refunded_minor: number
      /** Authorized payments. */
      authorized: number
      /** Payments whose authorization failed. */
      failed: number
      /** The fraction of authorizations that succeeded; null without any. */
      success_rate: number | null
    }[]
    /** The total of the last seven days. */
    week: {
      /** Captured payments. */
      captured: number
      /** The captured amount. */
      captured_minor: number
      /** Successful refunds, including those that failed later. */
      refunded: number
      /** The refunded amount, including refunds that failed later. */
      refunded_minor: number
      /** Authorized payments. */
      authorized: number
      /** Payments whose authorization failed. */
      failed: number
      /** The fraction of authorizations that succeeded; null without any. */
      success_rate: number | null
    }
    /** The total of the seven days before. */
    week_before: {
      /** Captured payments. */
      captured: number
      /** The captured amount. */
      captured_minor: number
      /** Successful refunds, including those that failed later. */
      refunded: number
      /** The refunded amount, including refunds that failed later. */
      refunded_minor: number
      /** Authorized payments. */
      authorized: number
      /** Payments whose authorization failed. */
      failed: number
      /** The fraction of authorizations that succeeded; null without any. */
      success_rate: number | null
    }
  }[]
  balances: {
    /** ISO 4217 currency code, in lower case. */
    currency: string
    /** The sum of all transactions. It can be negative, e.g. after a refund. */
    balance_minor: number
    /** The amount that payouts have reserved: the sum of those that are `pending` or `processing`. */
    pending_payouts_minor: number
    /** `balance_minor` minus `pending_payouts_minor`: the amount that can be paid out. */
    available_minor: number
    /**
     * The balance at the end of each of the last seven days, oldest first; the last one is the present
     * balance.
     */
    days_minor: number[]
  }[]
  attention: AttentionShape[]
  /** How long the oldest of its jobs has been due, in seconds; 0 without due jobs. */
  oldest_due_s: number
  /** The number of its retrying jobs, whose last attempt failed; at most 1,000. */
  retrying: number
  /** How long the attempts of the oldest retrying job have failed, in seconds; 0 without any. */
  oldest_retrying_s: number
  /** Events not counted in the days yet, usually those of the last seconds. */
  uncounted_events: number
  /** The time of the response. */
  as_of: string
}

interface AttentionShape {
  /**
   * `provider_outage`: a provider does not answer, and its jobs wait. `schedule_failing`: kinds of
   * recurring work whose last run failed, for operators. `proposal_undecided`: proposals that another
   * operator must confirm or reject, for operators. `hold_lapses`: payments whose hold lapses within a
   * day. `effect_unknown`: jobs with an unknown effect. `drift`: differences between the books and the
   * processor. `deliveries_failed`: failed deliveries of the last day. `endpoint_disabled`:
   * automatically disabled endpoints. `endpoint_failing`: endpoints whose attempts currently all fail.
   * `verification_open`: verifications whose last check failed and that are undecided.
   * `dispute_needs_response`: disputes that wait for a response.
   */
  kind:
    | 'provider_outage'
    | 'schedule_failing'
    | 'proposal_undecided'
    | 'hold_lapses'
    | 'effect_unknown'
    | 'drift'
    | 'deliveries_failed'
    | 'endpoint_disabled'
    | 'endpoint_failing'
    | 'verification_open'
    | 'dispute_needs_response'
  /** The count, at most 1,000. */
  count: number
  /** Whether there are more. */
  is_more: boolean
  /** The start of the oldest problem; for holds, the time at which the first hold lapses. */
  oldest_at: string
  /** The ids of up to three, oldest first: payments, jobs, drifts, endpoints, verifications or disputes. */
  examples: string[]
  /** Only for `provider_outage`; null otherwise. */
  outage: {
    /** Its name. */
    provider: string
    /** The display name of the provider. */
    title: string
    /**
     * `credentials`: it refuses our credentials, or a worker lacks them. `no_answer`: no call gets a
     * usable answer.
     */
    problem: 'credentials' | 'no_answer'
    /** What is out, for people. It names the operations if others are answered. */
    text: string
    /** The operations without answers; empty: all. */
    operations: string[]
    /** The jobs of this tenant that wait for it. */
    waiting: {
      /** The waiting resource. */
      resource:
        | 'customer'
        | 'recipient'
        | 'merchant'
        | 'payment'
        | 'refund'
        | 'dispute'
        | 'payout'
        | 'top_up'
        | 'kyc'
        | 'ai_task'
        | 'message'
        | 'template'
        | 'suppression'
        | 'webhook_endpoint'
        | 'webhook_delivery'
        | 'webhook_recovery'
        | 'feed'
        | 'request'
      /** The number of its waiting jobs. */
      count: number
    }[]
  } | null
}

interface TimelineDataShape {
  jobs: {
    id: string
    name: string
    /** The refund of the job; null if it has none. */
    refund_id: string | null
    state: string
    /** Attempts so far. */
    attempt: number
    /** ISO 8601 in UTC, with microseconds. */
    created_at: string
    finished_at: string | null
    /** When it is due next; null once it has finished. */
    run_at: string | null
    /** Since when its effect is unknown. */
    unknown_since: string | null
    /** Whether an attempt may have taken effect although the job continues. */
    in_doubt: boolean
  }[]
  events: {
    id: string
    /** The id of its object: the row itself or a part of it, such as a refund or dispute. */
    about_id: string
  }[]
  deliveries: {
    /** The id of the delivery. */
    id: string
    /** The endpoint. */
    endpoint_id: string
    /** The id of the event, which is also the header `webhook-id` of each attempt. */
    event_id: string
    /** The type of the event. */
    type: string
    status: WebhookDeliveryStatus
    /** Scheduled attempts so far; replays do not count. */
    attempts: number
    /**
     * When the next attempt is due; null if there is none. It may come later: a failing endpoint gets one
     * request at a time, and an ordered endpoint gets its events in order.
     */
    next_attempt_at: string | null
    /** The HTTP status of the last response; null if there was none. */
    last_status_code: number | null
    /** Why the last attempt got no response. */
    last_error: string | null
    /** When it was delivered. */
    delivered_at: string | null
    /** The cursor of lists. */
    created_at: string
    /** When it last changed. */
    updated_at: string
    /** The URL of the endpoint. */
    url: string
  }[]
  /** ISO 8601 in UTC, with microseconds. */
  as_of: string
}

interface QueuesFiguresShape {
  queues: {
    /** Its name. */
    queue: 'payments' | 'payouts' | 'compliance' | 'messages' | 'notifications' | 'deliveries' | 'ai'
    /** Jobs that are due. */
    due: number
    /** Jobs scheduled for later. */
    later: number
    /** Running jobs. */
    running: number
    /** Jobs with an unknown effect. */
    unknown: number
    /** Jobs that wait for an operator. */
    parked: number
    /** How long the oldest job has been due at this moment, in seconds, even while nothing is counted. */
    oldest_due_s: number
    /** Open jobs whose last attempt failed, at this moment; at most 10,000 of each name. */
    retrying: number
    /** How long the attempts of the oldest retrying job have failed, in seconds. */
    oldest_retrying_s: number
    /** The present outages of providers that its jobs call. */
    outages: string[]
    /** Created jobs per second since the last whole minute began. */
    in_per_s_1m: number
    /** Finished jobs. */
    out_per_s_1m: number
    /** Created jobs per second since the last five whole minutes began. */
    in_per_s_5m: number
    /** Finished jobs. */
    out_per_s_5m: number
    /** The time from when a job was due to the start of its last attempt. */
    wait: {
      last_5m: {
        /** The median; null without any. */
        p50_ms: number | null
        /** The 95th percentile, accurate to a quarter. */
        p95_ms: number | null
        /** The 99th percentile. */
        p99_ms: number | null
      }
      last_1h: {
        /** The median; null without any. */
        p50_ms: number | null
        /** The 95th percentile, accurate to a quarter. */
        p95_ms: number | null
        /** The 99th percentile. */
        p99_ms: number | null
      }
    }
    /** The duration of the last attempt. */
    run: {
      last_5m: {
        /** The median; null without any. */
        p50_ms: number | null
        /** The 95th percentile, accurate to a quarter. */
        p95_ms: number | null
        /** The 99th percentile. */
        p99_ms: number | null
      }
      last_1h: {
        /** The median; null without any. */
        p50_ms: number | null
        /** The 95th percentile, accurate to a quarter. */
        p95_ms: number | null
        /** The 99th percentile. */
        p99_ms: number | null
      }
    }
    /** Jobs that failed or were discarded in the last hour. */
    failed_1h: number
    /** Finished jobs in each of the last 60 minutes; the last one is incomplete. */
    out_by_minute: number[]
    /** Whether the queue is paused. */
    paused: boolean
    /** The number of tenants paused in it. */
    paused_tenants: number
  }[]
  /** The time up to which everything is counted; null before the first count. */
  as_of: string | null
  /**
   * `current`: jobs that finished up to 30 seconds ago are counted. `behind`: a worker is still counting
   * them. `stopped`: no worker counts.
   */
  counting: 'current' | 'behind' | 'stopped'
}

interface JobNameFiguresShape {
  names: {
    /** The name of the job. */
    name: string
    /** Created jobs. */
    in: number
    /** Finished jobs. */
    out: number
    /** Finished jobs that succeeded. */
    succeeded: number
    /** Finished jobs that failed. */
    failed: number
    /** Discarded jobs. */
    discarded: number
    /** Attempts beyond the first. */
    retries: number
    /** The time from when a job was due to its last attempt. */
    wait: {
      /** The median; null without any. */
      p50_ms: number | null
      /** The 95th percentile, accurate to a quarter. */
      p95_ms: number | null
      /** The 99th percentile. */
      p99_ms: number | null
    }
    /** The duration of its last attempt. */
    run: {
      /** The median; null without any. */
      p50_ms: number | null
      /** The 95th percentile, accurate to a quarter. */
      p95_ms: number | null
      /** The 99th percentile. */
      p99_ms: number | null
    }
    /** Jobs that are due. */
    due: number
    /** Jobs scheduled for later. */
    later: number
    /** Running jobs. */
    running: number
    /** Jobs with an unknown effect. */
    unknown: number
    /** Jobs that wait for an operator. */
    parked: number
    /** How long the oldest job has been due, in seconds. */
    oldest_due_s: number
  }[]
  /** The time up to which everything is counted; null before the first count. */
  as_of: string | null
  /**
   * `current`: jobs that finished up to 30 seconds ago are counted. `behind`: a worker is still counting
   * them. `stopped`: no worker counts.
   */
  counting: 'current' | 'behind' | 'stopped'
}

interface JobSeriesShape {
  /** The length of each point in seconds. */
  step_s: number
  points: {
    /** The start. */
    at: string
    /** Created jobs. */
    in: number
    /** Finished jobs. */
    out: number
    /** Finished jobs that failed or were discarded. */
    failed: number
    /** The maximum number of due jobs; null without a sample. */
    due: number | null
    /** The maximum time that a job had been due, in seconds. */
    oldest_due_s: number | null
    /** The time from when a job was due to its last attempt. */
    wait: {
      /** The median; null without any. */
      p50_ms: number | null
      /** The 95th percentile, accurate to a quarter. */
      p95_ms: number | null
      /** The 99th percentile. */
      p99_ms: number | null
    }
    /** The duration of its last attempt. */
    run: {
      /** The median; null without any. */
      p50_ms: number | null
      /** The 95th percentile, accurate to a quarter. */
      p95_ms: number | null
      /** The 99th percentile. */
      p99_ms: number | null
    }
  }[]
  /** The time up to which everything is counted; null before the first count. */
  as_of: string | null
  /**
   * `current`: jobs that finished up to 30 seconds ago are counted. `behind`: a worker is still counting
   * them. `stopped`: no worker counts.
   */
  counting: 'current' | 'behind' | 'stopped'
}

interface TenantSharesShape {
  /** The length of the window, up to now. */
  window: '5m' | '15m' | '1h' | '24h' | '7d'
  /** Finished jobs. */
  finished: number
  /** The total duration of their last attempts. */
  run_ms: number
  tenants: {
    /** The tenant; null: all others. */
    tenant_id: string | null
    /** The slug of the tenant. */
    slug: string | null
    /** Jobs of this tenant that finished. */
    finished: number
    /** The total duration of their last attempts. */
    run_ms: number
    /** The fraction of all finished jobs. */
    share: number
  }[]
  /** The time up to which everything is counted; null before the first count. */
  as_of: string | null
  /**
   * `current`: jobs that finished up to 30 seconds ago are counted. `behind`: a worker is still counting
   * them. `stopped`: no worker counts.
   */
  counting: 'current' | 'behind' | 'stopped'
}

interface ProviderHealthShape {
  providers: {
    /** Its name. */
    provider: string
    /** Finished jobs with a call to it in the last 15 minutes. */
    calls: number
    /** Calls that took effect. */
    done: number
    /** Calls that it declined. */
    declined: number
    /** Failed calls in the last 15 minutes; every attempt counts. */
    failed: number
    /** Failed calls by outcome, the most frequent first. */
    failures: {
      /**
       * `retry`: it certainly had no effect. `ambiguous`: it may have had one. `misconfigured`: our
       * credentials or configuration were refused.
       */
      outcome: 'retry' | 'ambiguous' | 'misconfigured'
      /** The number of failed calls. */
      count: number
    }[]
    /** The present outage; null if it answers, or if no call is made. */
    outage: {
      /**
       * `credentials`: it refuses our credentials, or a worker lacks them. `no_answer`: no call gets a
       * usable answer.
       */
      problem: 'credentials' | 'no_answer'
      /** What is out, for people. It names the operations if others are answered. */
      text: string
      /** The operations without answers; empty: all. */
      operations: string[]
      /** Since when. */
      since: string
      /** The variables to check. */
      check: string[]
    } | null
    /** Open jobs with a call to it whose last attempt failed; at most 10,000 of each name. */
    retrying: number
    /** How long the attempts of the oldest retrying job have failed, in seconds. */
    oldest_retrying_s: number
    /** Attempts beyond the first. */
    retries: number
    /** The duration of the last attempt, from claim to end. */
    took: {
      /** The median; null without any. */
      p50_ms: number | null
      /** The 95th percentile, accurate to a quarter. */
      p95_ms: number | null
      /** The 99th percentile. */
      p99_ms: number | null
    }
    /** Jobs whose calls are currently refused before they take effect. */
    refused: number
    /** Jobs with an attempt that may have reached it without an answer. */
    in_doubt: number
    /** Jobs with an unknown effect. */
    unknown: number
  }[]
  /** The time up to which everything is counted; null before the first count. */
  as_of: string | null
  /**
   * `current`: jobs that finished up to 30 seconds ago are counted. `behind`: a worker is still counting
   * them. `stopped`: no worker counts.
   */
  counting: 'current' | 'behind' | 'stopped'
}

interface TenantsDriftShape {
  /** The id of the drift. */
  id: string
  /** The tenant that it belongs to. */
  tenant_id: string
  subject: DriftSubject
  /** The id of the resource that differs. */
  subject_id: string
  /** The payment; null if it belongs to none. */
  payment_id: string | null
  state: DriftState
  /** Our record; null for an orphan, which has none. */
  ours: DriftSide | null
  /** The processor's record, in our terms; null if it is not known yet or does not exist. */
  theirs: DriftSide | null
  /** Further details. */
  detail: string | null
  /** When the drift began. */
  since: string
  /** The age of the drift in seconds. */
  age_s: number
  /** When the processor was last queried. */
  checked_at: string | null
  /** When the drift was detected: the cursor of lists. */
  created_at: string
  tenant: string
}

interface DatabaseSwitchShape {
  number: number
  kind: 'failover' | 'restore' | 'planned'
  sign: 'lineage' | 'witness' | 'operator'
  /** The newest change in the database before the switch. */
  newest_at: string
  /** When the witness last read the database's clock; null without a witness. */
  witnessed_at: string | null
  /** ISO 8601 in UTC, with microseconds. */
  switched_at: string
  jobs_in_doubt: number
  /** When everything that the providers list had been recovered. */
  lists_read_at: string | null
  /** When an operator decided that nothing waits for the lists any longer. */
  lists_waived_at: string | null
  lists_waived_by: string | null
  /** When the SMS that were received since the newest change before the switch had been read and applied. */
  opt_outs_read_at: string | null
  /** Whether a worker still reads these received SMS. Without a provider of SMS, none does. */
  is_reading_opt_outs: boolean
  released_at: string | null
  released_by: string | null
  messages: 'send' | 'discard' | null
  acknowledged_at: string | null
  acknowledged_by: string | null
  /** The last entry of the audit log that the witness had seen. */
  audit: {
    seq: number
    hash: string
  } | null
  /**
   * The numbers of the entries that a witness had seen and that are lost; null if none is known to be
   * lost.
   */
  lost_audit_entries: {
    first: number
    last: number
  } | null
}

/** Responses by method and path. Paths are relative to `/api`. */
export interface Answers {
  'GET /v1/ai/tasks': AiTask[]
  'GET /v1/ai/tasks/{id}': AiTask
  'GET /v1/compliance/kyc': Verification[]
  'GET /v1/compliance/kyc/{id}': Verification
  'GET /v1/compliance/kyc/{id}/timeline': TimelineEntry[]
  'GET /v1/customers': Customer[]
  'GET /v1/customers/{id}': Customer
  'GET /v1/disputes': Dispute[]
  'GET /v1/disputes/{id}': Dispute
  'GET /v1/events': FeedEvent[]
  'GET /v1/events/{id}': FeedEvent
  'GET /v1/idempotency_keys/{key}': AcceptedRequest[]
  'GET /v1/merchants': Merchant[]
  'GET /v1/merchants/{id}': Merchant
  'GET /v1/messages': Message[]
  'GET /v1/messages/suppressions': Suppression[]
  'GET /v1/messages/suppressions/{id}': Suppression
  'GET /v1/messages/templates': MessageTemplate[]
  'GET /v1/messages/templates/{id}': MessageTemplate
  'GET /v1/messages/{id}': Message
  'GET /v1/messages/{id}/timeline': TimelineEntry[]
  'GET /v1/payments': Payment[]
  'GET /v1/payments/{id}': Payment
  'GET /v1/payments/{id}/events': FeedEvent[]
  'GET /v1/payments/{id}/refunds': Refund[]
  'GET /v1/payments/{id}/timeline': TimelineEntry[]
  'GET /v1/payouts': Payout[]
  'GET /v1/payouts/{id}': Payout
  'GET /v1/payouts/{id}/timeline': TimelineEntry[]
  'GET /v1/recipients': Recipient[]
  'GET /v1/recipients/{id}': Recipient
  'GET /v1/reconciliation': Drift[]
  'GET /v1/refunds': Refund[]
  'GET /v1/refunds/{id}': Refund
  'GET /v1/test_clock': TestClock
  'GET /v1/wallet/balances': WalletBalance[]
  'GET /v1/wallet/top_ups': TopUp[]
  'GET /v1/wallet/top_ups/{id}': TopUp
  'GET /v1/wallet/top_ups/{id}/timeline': TimelineEntry[]
  'GET /v1/wallet/transactions': WalletTransaction[]
  'GET /v1/webhook_deliveries/{id}': WebhookDeliveryDetail
  'GET /v1/webhook_endpoints': WebhookEndpoint[]
  'GET /v1/webhook_endpoints/{id}': WebhookEndpoint
  'GET /v1/webhook_endpoints/{id}/deliveries': WebhookDelivery[]
  'GET /v1/webhook_endpoints/{id}/stats': WebhookEndpointStats
  'GET /v1/webhook_recoveries/{id}': WebhookRecovery
  'GET /session': {
    session_id: string
    user: {
      id: string
      name: string
      email: string
      two_factor_enabled: boolean
    }
    is_operator: boolean
    tenant: {
      id: string
      slug: string
      name: string
      live_id: string
      mode: 'live' | 'test'
    } | null
    tenant_without_twin: string | null
    role: 'owner' | 'admin' | 'developer' | 'support' | 'read-only' | 'operator' | null
    may: string[]
    who_may: Record<string, ('owner' | 'admin' | 'developer' | 'support' | 'read-only')[]>
    roles_to_give: ('owner' | 'admin' | 'developer' | 'support' | 'read-only')[]
    key_scopes: string[]
    tenants: {
      id: string
      slug: string
      name: string
      twin_id: string | null
      role: 'owner' | 'admin' | 'developer' | 'support' | 'read-only'
    }[]
    areas: {
      name:
        | 'customers'
        | 'payments'
        | 'payouts'
        | 'wallet'
        | 'recipients'
        | 'merchants'
        | 'compliance'
        | 'messages'
        | 'ai'
        | 'events'
      state: 'deployed' | 'switched_off' | 'not_deployed' | 'without_credentials'
    }[]
    emulators: string[]
    payment_method_to_try: string | null
    has_sandbox_processor: boolean
    api_url: string
    sends_email: boolean
    version: string
  }
  'POST /session/tenant': {
    tenant_id: string
    mode: 'live' | 'test'
  }
  'GET /invitations/{token}': {
    tenant: string
    email: string
    role: 'owner' | 'admin' | 'developer' | 'support' | 'read-only'
    has_user: boolean | null
  }
  'POST /invitations/{token}/accept': {
    email: string
  }
  'GET /session/pauses': {
    /** Null: all queues. */
    queue: string | null
    /** ISO 8601 in UTC, with microseconds. */
    since: string
  }[]
  'GET /keys': {
    id: string
    name: string
    last_four: string
    scopes: (
      | 'customer:write'
      | 'payments:read'
      | 'payments:write'
      | 'payouts:read'
      | 'payouts:write'
      | 'wallet:read'
      | 'wallet:write'
      | 'recipients:read'
      | 'recipients:write'
      | 'merchants:read'
      | 'merchants:write'
      | 'compliance:read'
      | 'compliance:write'
      | 'messaging:read'
      | 'messaging:write'
      | 'ai:read'
      | 'ai:write'
      | 'events:read'
      | 'webhooks:write'
    )[]
    created_at: string
    last_used_at: string | null
    expires_at: string | null
    revoked_at: string | null
  }[]
  'POST /keys': {
    id: string
    name: string
    last_four: string
    scopes: (
      | 'customer:write'
      | 'payments:read'
      | 'payments:write'
      | 'payouts:read'
      | 'payouts:write'
      | 'wallet:read'
      | 'wallet:write'
      | 'recipients:read'
      | 'recipients:write'
      | 'merchants:read'
      | 'merchants:write'
      | 'compliance:read'
      | 'compliance:write'
      | 'messaging:read'
      | 'messaging:write'
      | 'ai:read'
      | 'ai:write'
      | 'events:read'
      | 'webhooks:write'
    )[]
    created_at: string
    last_used_at: string | null
    expires_at: string | null
    revoked_at: string | null
    secret: string
  }
  'POST /keys/{id}/rotate': {
    id: string
    name: string
    last_four: string
    scopes: (
      | 'customer:write'
      | 'payments:read'
      | 'payments:write'
      | 'payouts:read'
      | 'payouts:write'
      | 'wallet:read'
      | 'wallet:write'
      | 'recipients:read'
      | 'recipients:write'
      | 'merchants:read'
      | 'merchants:write'
      | 'compliance:read'
      | 'compliance:write'
      | 'messaging:read'
      | 'messaging:write'
      | 'ai:read'
      | 'ai:write'
      | 'events:read'
      | 'webhooks:write'
    )[]
    created_at: string
    last_used_at: string | null
    expires_at: string | null
    revoked_at: string | null
    secret: string
  }
  'GET /email-domains': {
    domains: string[] | null
    of_installation: string[]
  }
  'GET /members': {
    members: {
      user_id: string
      name: string
      email: string
      email_verified: boolean
      role: 'owner' | 'admin' | 'developer' | 'support' | 'read-only'
      two_factor_enabled: boolean
      created_at: string
    }[]
    invitations: {
      id: string
      email: string
      role: 'owner' | 'admin' | 'developer' | 'support' | 'read-only'
      invited_by: string | null
      created_at: string
      expires_at: string
    }[]
  }
  'POST /members/invitations': {
    id: string
    email: string
    role: 'owner' | 'admin' | 'developer' | 'support' | 'read-only'
    expires_at: string
    link: string | null
    sent: boolean
  }
  'GET /audit': {
    seq: number
    at: string
    tenant: string | null
    actor: string
    action: string
    subject: string | null
    subject_id: string | null
    details: Record<string, unknown>
    request_id: string | null
    address: string | null
    outcome: Record<string, unknown> | null
    expects_outcome: boolean
  }[]
  'GET /overview': OverviewShape
  'GET /timelines/{id}': TimelineDataShape
  'GET /find': {
    resource:
      | 'customer'
      | 'recipient'
      | 'merchant'
      | 'payment'
      | 'refund'
      | 'dispute'
      | 'payout'
      | 'top_up'
      | 'kyc'
      | 'ai_task'
      | 'message'
      | 'template'
      | 'suppression'
      | 'webhook_endpoint'
      | 'webhook_delivery'
      | 'webhook_recovery'
      | 'feed'
      | 'request'
      | 'event'
    id: string
    by: 'id' | 'reference' | 'email' | 'words'
    name: string | null
    amount_minor: number | null
    currency: string | null
  }[]
  'GET /events': FeedEvent[]
  'GET /events/{id}/deliveries': WebhookDelivery[]
  'GET /webhook_endpoints/series': {
    endpoint_id: string
    points: {
      at: string
      delivered: number
      failed: number
      failed_attempts: number
    }[]
  }[]
  'GET /webhook_endpoints/{id}/hours': {
    at: string
    delivered: number
    failed: number
    failed_attempts: number
    p50_ms: number | null
    p95_ms: number | null
  }[]
  'GET /sandbox/messages': {
    id: string
    channel: 'email' | 'sms'
    reference: string
    status: 'sent' | 'delivered' | 'undelivered' | 'failed' | 'received'
    from: string
    to: string[]
    subject: string | null
    created_at: string
  }[]
  'GET /sandbox/messages/{id}': {
    id: string
    channel: 'email' | 'sms'
    reference: string
    status: 'sent' | 'delivered' | 'undelivered' | 'failed' | 'received'
    from: string
    to: string[]
    subject: string | null
    created_at: string
    text: string | null
    html: string | null
    attachments: {
      filename: string
      content_type: string
      bytes: number
    }[]
  }
  'GET /sandbox/kyc': {
    id: string
    tenant_id: string
    tenant_name: string
  }
  'POST /sandbox/messages/{id}/reply': {
    id: string
  }
  'POST /sandbox/payments/{id}/authenticate': {
    id: string
  }
  'POST /sandbox/payments/{id}/dispute': {
    id: string
  }
  'POST /sandbox/payouts/{id}/fail': {
    id: string
  }
  'POST /sandbox/kyc/{id}/complete': {
    id: string
  }
  'GET /ops/queues': QueuesFiguresShape
  'GET /ops/queues/{queue}/names': JobNameFiguresShape
  'GET /ops/series': JobSeriesShape
  'GET /ops/shares': TenantSharesShape
  'GET /ops/tenants': {
    id: string
    slug: string
    name: string
  }[]
  'GET /ops/providers': ProviderHealthShape
  'GET /ops/processes': {
    id: string
    name: string
    version: string
    host: string
    pid: number
    queues: string[] | null
    /** ISO 8601 in UTC, with microseconds. */
    started_at: string
    /** ISO 8601 in UTC, with microseconds. */
    seen_at: string
    state: 'up' | 'late' | 'gone'
  }[]
  'GET /ops/schedules': {
    name: string
    about: string | null
    state: 'new' | 'running' | 'ended' | 'failed' | 'lost'
    worker: string | null
    started_at: string | null
    ended_at: string | null
    duration_ms: number | null
    next_run_at: string | null
    result: unknown
    failure: string | null
    failing_since: string | null
    failed_runs: number
  }[]
  'GET /ops/drifts': TenantsDriftShape[]
  'GET /ops/parked': {
    id: string
    provider: string
    event_id: string
    kind: string
    object_id: string | null
    reason: string | null
    waits_for: string | null
    tenant: string | null
    resource: string | null
    resource_id: string | null
    /** ISO 8601 in UTC, with microseconds. */
    received_at: string
    /** ISO 8601 in UTC, with microseconds. */
    parked_at: string
    age_s: number
  }[]
  'GET /ops/jobs': {
    items: {
      id: string
      tenant: string | null
      tenant_id: string
      queue: string
      name: string
      state: string
      parked: boolean
      paused: boolean
      acting: 'retry' | 'discard' | 'run_now' | 'resolve' | null
      resource:
        | 'customer'
        | 'recipient'
        | 'merchant'
        | 'payment'
        | 'refund'
        | 'dispute'
        | 'payout'
        | 'top_up'
        | 'kyc'
        | 'ai_task'
        | 'message'
        | 'template'
        | 'suppression'
        | 'webhook_endpoint'
        | 'webhook_delivery'
        | 'webhook_recovery'
        | 'feed'
        | 'request'
        | null
      resource_id: string | null
      attempt: number
      run_at: string | null
      unknown_since: string | null
      failing_since: string | null
      first_sent_at: string | null
      error: string | null
      /** ISO 8601 in UTC, with microseconds. */
      created_at: string
      started_at: string | null
      finished_at: string | null
    }[]
    next: string | null
    previous: string | null
    scanned_until: string | null
  }
  'GET /ops/jobs/count': {
    count: number
    more: boolean
    filter: {
      state: 'open' | 'parked' | 'retrying' | 'ready' | 'running' | 'unknown' | 'discarded'
      queue?: 'payments' | 'payouts' | 'compliance' | 'messages' | 'notifications' | 'deliveries' | 'ai'
      name?: string
      tenant_id?: string
      resource_id?: string
      created_from?: string
      created_to?: string
    } | null
  }
  'GET /ops/jobs/{id}': {
    id: string
    tenant: string | null
    tenant_id: string
    queue: string
    name: string
    state: string
    parked: boolean
    paused: boolean
    acting: 'retry' | 'discard' | 'run_now' | 'resolve' | null
    resource:
      | 'customer'
      | 'recipient'
      | 'merchant'
      | 'payment'
      | 'refund'
      | 'dispute'
      | 'payout'
      | 'top_up'
      | 'kyc'
      | 'ai_task'
      | 'message'
      | 'template'
      | 'suppression'
      | 'webhook_endpoint'
      | 'webhook_delivery'
      | 'webhook_recovery'
      | 'feed'
      | 'request'
      | null
    resource_id: string | null
    attempt: number
    run_at: string | null
    unknown_since: string | null
    failing_since: string | null
    first_sent_at: string | null
    error: string | null
    /** ISO 8601 in UTC, with microseconds. */
    created_at: string
    started_at: string | null
    finished_at: string | null
    payload: unknown
    max_attempts: number
    request_id: string | null
    worker: string | null
    lease_until: string | null
    works_on: {
      resource:
        | 'customer'
        | 'recipient'
        | 'merchant'
        | 'payment'
        | 'refund'
        | 'dispute'
        | 'payout'
        | 'top_up'
        | 'kyc'
        | 'ai_task'
        | 'message'
        | 'template'
        | 'suppression'
        | 'webhook_endpoint'
        | 'webhook_delivery'
        | 'webhook_recovery'
        | 'feed'
        | 'request'
      id: string
      status: string | null
      amount_minor: number | null
      currency: string | null
      provider_reference: string | null
      idempotency_key: string | null
    } | null
    delivery: {
      id: string
      status: string
      attempts: number
      next_attempt_at: string | null
    } | null
    call: {
      makes: string | null
      under_way: boolean
    } | null
    attempts: {
      attempt: number
      worker: string
      /** ISO 8601 in UTC, with microseconds. */
      started_at: string
      ended_at: string | null
      outcome: string | null
      error: string | null
    }[]
    calls: {
      generation: number
      key: string
      operation: string
      first_sent_at: string | null
      last_sent_at: string | null
      refused_since: string | null
      outcome: string | null
      provider_reference: string | null
    }[]
    acts: {
      /** ISO 8601 in UTC, with microseconds. */
      at: string
      actor: string
      act: string
      reason: string
      before: string
      after: string
    }[]
    postings: {
      /** ISO 8601 in UTC, with microseconds. */
      at: string
      kind: string
      added: boolean
      amount_minor: number
      currency: string
    }[]
  }
  'POST /ops/acts': {
    id: string
    act: 'retry' | 'discard' | 'run_now' | 'resolve'
    job_id: string | null
    filter: {
      state: 'open' | 'parked' | 'retrying' | 'ready' | 'running' | 'unknown' | 'discarded'
      queue?: 'payments' | 'payouts' | 'compliance' | 'messages' | 'notifications' | 'deliveries' | 'ai'
      name?: string
      tenant_id?: string
      resource_id?: string
      created_from?: string
      created_to?: string
    } | null
    actor: string
    reason: string
    took_effect: boolean | null
    reference: string | null
    state: 'requested' | 'running' | 'done' | 'canceled' | 'failed'
    matched: number
    found: number
    done: number
    refused: number
    more: boolean
    error: string | null
    canceled_by: string | null
    /** ISO 8601 in UTC, with microseconds. */
    created_at: string
    started_at: string | null
    finished_at: string | null
  }
  'GET /ops/acts': {
    id: string
    act: 'retry' | 'discard' | 'run_now' | 'resolve'
    job_id: string | null
    filter: {
      state: 'open' | 'parked' | 'retrying' | 'ready' | 'running' | 'unknown' | 'discarded'
      queue?: 'payments' | 'payouts' | 'compliance' | 'messages' | 'notifications' | 'deliveries' | 'ai'
      name?: string
      tenant_id?: string
      resource_id?: string
      created_from?: string
      created_to?: string
    } | null
    actor: string
    reason: string
    took_effect: boolean | null
    reference: string | null
    state: 'requested' | 'running' | 'done' | 'canceled' | 'failed'
    matched: number
    found: number
    done: number
    refused: number
    more: boolean
    error: string | null
    canceled_by: string | null
    /** ISO 8601 in UTC, with microseconds. */
    created_at: string
    started_at: string | null
    finished_at: string | null
  }[]
  'GET /ops/acts/{id}': {
    id: string
    act: 'retry' | 'discard' | 'run_now' | 'resolve'
    job_id: string | null
    filter: {
      state: 'open' | 'parked' | 'retrying' | 'ready' | 'running' | 'unknown' | 'discarded'
      queue?: 'payments' | 'payouts' | 'compliance' | 'messages' | 'notifications' | 'deliveries' | 'ai'
      name?: string
      tenant_id?: string
      resource_id?: string
      created_from?: string
      created_to?: string
    } | null
    actor: string
    reason: string
    took_effect: boolean | null
    reference: string | null
    state: 'requested' | 'running' | 'done' | 'canceled' | 'failed'
    matched: number
    found: number
    done: number
    refused: number
    more: boolean
    error: string | null
    canceled_by: string | null
    /** ISO 8601 in UTC, with microseconds. */
    created_at: string
    started_at: string | null
    finished_at: string | null
  }
  'GET /ops/acts/{id}/items': {
    job_id: string
    at: string | null
    before: string | null
    after: string | null
    lookup_only: boolean
    refused: string | null
  }[]
  'GET /ops/pauses': {
    queue: string | null
    tenant: string | null
    tenant_id: string | null
    reason: string | null
    actor: string | null
    /** ISO 8601 in UTC, with microseconds. */
    since: string
  }[]
  'GET /ops/proposals': {
    id: string
    kind: 'correction' | 'fail_payout'
    state: 'open' | 'confirmed' | 'done' | 'refused' | 'rejected' | 'canceled' | 'expired'
    tenant_id: string
    tenant: string
    payout_id: string | null
    currency: string | null
    amount_minor: number | null
    reason: string
    proposed_by: string
    proposed_by_id: string
    decided_by: string | null
    decided_at: string | null
    carried_out_at: string | null
    refused: string | null
    error: string | null
    /** ISO 8601 in UTC, with microseconds. */
    created_at: string
    /** ISO 8601 in UTC, with microseconds. */
    expires_at: string
  }[]
  'GET /ops/proposals/{id}': {
    id: string
    kind: 'correction' | 'fail_payout'
    state: 'open' | 'confirmed' | 'done' | 'refused' | 'rejected' | 'canceled' | 'expired'
    tenant_id: string
    tenant: string
    payout_id: string | null
    currency: string | null
    amount_minor: number | null
    reason: string
    proposed_by: string
    proposed_by_id: string
    decided_by: string | null
    decided_at: string | null
    carried_out_at: string | null
    refused: string | null
    error: string | null
    /** ISO 8601 in UTC, with microseconds. */
    created_at: string
    /** ISO 8601 in UTC, with microseconds. */
    expires_at: string
  }
  'POST /ops/proposals': {
    id: string
    kind: 'correction' | 'fail_payout'
    state: 'open' | 'confirmed' | 'done' | 'refused' | 'rejected' | 'canceled' | 'expired'
    tenant_id: string
    tenant: string
    payout_id: string | null
    currency: string | null
    amount_minor: number | null
    reason: string
    proposed_by: string
    proposed_by_id: string
    decided_by: string | null
    decided_at: string | null
    carried_out_at: string | null
    refused: string | null
    error: string | null
    /** ISO 8601 in UTC, with microseconds. */
    created_at: string
    /** ISO 8601 in UTC, with microseconds. */
    expires_at: string
  }
  'POST /ops/proposals/{id}/confirm': {
    id: string
    kind: 'correction' | 'fail_payout'
    state: 'open' | 'confirmed' | 'done' | 'refused' | 'rejected' | 'canceled' | 'expired'
    tenant_id: string
    tenant: string
    payout_id: string | null
    currency: string | null
    amount_minor: number | null
    reason: string
    proposed_by: string
    proposed_by_id: string
    decided_by: string | null
    decided_at: string | null
    carried_out_at: string | null
    refused: string | null
    error: string | null
    /** ISO 8601 in UTC, with microseconds. */
    created_at: string
    /** ISO 8601 in UTC, with microseconds. */
    expires_at: string
  }
  'POST /ops/proposals/{id}/reject': {
    id: string
    kind: 'correction' | 'fail_payout'
    state: 'open' | 'confirmed' | 'done' | 'refused' | 'rejected' | 'canceled' | 'expired'
    tenant_id: string
    tenant: string
    payout_id: string | null
    currency: string | null
    amount_minor: number | null
    reason: string
    proposed_by: string
    proposed_by_id: string
    decided_by: string | null
    decided_at: string | null
    carried_out_at: string | null
    refused: string | null
    error: string | null
    /** ISO 8601 in UTC, with microseconds. */
    created_at: string
    /** ISO 8601 in UTC, with microseconds. */
    expires_at: string
  }
  'GET /ops/recovery': {
    /** The server on record. */
    server: {
      system_identifier: string
      timeline: number
    }
    /** Whether the database runs on the server on record. */
    is_on_lineage: boolean
    is_sealed: boolean
    /**
     * `payouts`: payouts and refunds wait. `creations`: all jobs that create something at a provider wait.
     * `all`: all jobs wait, except for notifications.
     */
    hold: 'payouts' | 'creations' | 'all' | null
    /**
     * A switch that is not recorded completely: all jobs wait. If an operator has declared it, the command
     * must be run again if it was stopped.
     */
    recording: {
      number: number
      sign: 'lineage' | 'witness' | 'operator'
      /** The newest change in the database before the switch. */
      newest_at: string
      /** ISO 8601 in UTC, with microseconds. */
      since: string
      /** The open jobs whose calls do not count as sent yet. */
      jobs_left: number
      /** The feeds that are not restarted yet. */
      feeds_left: number
    } | null
    /** Messages that were accepted before the switch wait. */
    holds_messages: boolean
    /** SMS that were accepted before the switch wait until the received SMS have been read. */
    holds_sms: boolean
    /** The numbers of the switches that are not released. */
    unreleased: number[]
    /** The numbers of the switches since which jobs wait until lists of the providers have been read. */
    awaiting_lists: number[]
    /** The lists that cannot be read. */
    failing_lists: {
      provider: string
      /** The name of the list; `events` for the list of events. */
      list: string
      /** ISO 8601 in UTC, with microseconds. */
      failing_since: string
      /** When the list could last not be read. */
      failed_at: string
      error: string
    }[]
    /**
     * The lookups that no provider has answered. Until then, the lists do not count as read. Null if there
     * are none, or nothing waits for the lists.
     */
    unanswered_lookups: {
      count: number
      /** ISO 8601 in UTC, with microseconds. */
      oldest_at: string
    } | null
    /**
     * Changes from this time until `lost_until` may be lost: the newest change before the last switch that
     * can have lost any. Null without one.
     */
    lost_since: string | null
    lost_until: string | null
    /** The switches that no operator has acknowledged, newest first; at most 10. */
    unacknowledged: DatabaseSwitchShape[]
    protections_off: string[]
  }
  'GET /ops/recovery/held': {
    queue: string
    jobs: number
  }[]
  'GET /ops/recovery/recovered': {
    /** The number of rows by resource; of each tenant at most 10000. */
    counts: {
      resource: string
      rows: number
    }[]
    latest: {
      resource: string
      resource_id: string
      subject_id: string
      tenant: string
      /** ISO 8601 in UTC, with microseconds. */
      recovered_at: string
    }[]
  }
  'GET /ops/recovery/lost-requests': {
    count: number
    latest: {
      /** The id of the report. */
      id: string
      /** The tenant that it belongs to. */
      tenant_id: string
      /**
       * The idempotency key of the request; null if it had none: then retrieve the resource before you
       * repeat the request.
       */
      idempotency_key: string | null
      /** The method and the path of the request. */
      path: string
      /** The resource that the request created or changed. */
      resource_id: string
      /** When the request was accepted. */
      accepted_at: string
      tenant: string
    }[]
  }
  'GET /ops/switches': DatabaseSwitchShape[]
  'POST /ops/switches/release': {
    released: number[]
    waived: number[]
  }
  'GET /ops/audit': {
    seq: number
    at: string
    tenant: string | null
    actor: string
    action: string
    subject: string | null
    subject_id: string | null
    details: Record<string, unknown>
    request_id: string | null
    address: string | null
    outcome: Record<string, unknown> | null
    expects_outcome: boolean
  }[]
}
