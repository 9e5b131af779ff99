// Texts of the timelines of payouts, top-ups and verifications.

/** The texts of a job: `Sent the payout`, `send the payout`, `Sending the payout`. */
export type RowJobTexts = { done: string; to_do: string; doing: string }

/** The texts of a resource. */
export type RowTexts = {
  jobs: Record<string, RowJobTexts>
  /** Texts by event type. Events without a text are minor: another entry already shows what happened. */
  events: Record<string, string>
}

export const PAYOUT_TEXTS: RowTexts = {
  jobs: {
    'payout.create': {
      done: 'Sent the payout',
      to_do: 'send the payout',
      doing: 'Sending the payout',
    },
    'payout.cancel': {
      done: 'Stopped the payout',
      to_do: 'stop the payout',
      doing: 'Stopping the payout',
    },
  },
  events: {
    'payout.created': 'Payout requested; its amount is reserved',
    'payout.paid': 'The payout was paid',
    'payout.fail_overtaken': 'A request to mark it as failed came too late: the processor paid it',
    'payout.failed': 'The payout failed',
    'payout.canceled': 'The payout was stopped in time',
  },
}

export const TOP_UP_TEXTS: RowTexts = {
  jobs: {
    'top_up.create': {
      done: 'Requested the money',
      to_do: 'request the money',
      doing: 'Requesting the money',
    },
  },
  events: {
    'top_up.created': 'Top-up requested',
    'top_up.succeeded': 'The money is in the balance',
    'top_up.failed': 'The money did not arrive',
    'top_up.canceled': 'The top-up was canceled before the money arrived',
    'top_up.reversed': 'The money was taken back',
  },
}

export const VERIFICATION_TEXTS: RowTexts = {
  jobs: {
    'kyc.create': {
      done: 'Started the check',
      to_do: 'start the check',
      doing: 'Starting the check',
    },
    'kyc.link': {
      done: 'Created a link for the person',
      to_do: 'create a link for the person',
      doing: 'Creating a link for the person',
    },
    'kyc.cancel': {
      done: 'Ended the check',
      to_do: 'end the check',
      doing: 'Ending the check',
    },
    'kyc.cancel_duplicate': {
      done: 'Ended a second check',
      to_do: 'end a second check',
      doing: 'Ending a second check',
    },
  },
  events: {
    'kyc.created': 'Verification requested',
    'kyc.requires_input': 'The person has to act',
    'kyc.processing': 'The provider reviews what the person submitted',
    'kyc.approved': 'The verification was approved',
    'kyc.rejected': 'The verification was rejected',
  },
}
