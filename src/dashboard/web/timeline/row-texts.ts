// The words of the timelines of payouts, top-ups and verifications.

/** What a job does, in the forms that sentences need: `Sent the payout`, `send the payout`, `Sending the payout`. */
export type RowJobTexts = { done: string; to_do: string; doing: string }

/** The words of a kind of row. */
export type RowTexts = {
  jobs: Record<string, RowJobTexts>
  /** By the type of an event: what it says. Those that are left out repeat what another entry says, and are folded. */
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
    'payout.fail_overtaken': 'It was to be marked as failed, but the processor paid it',
    'payout.failed': 'The payout failed',
    'payout.canceled': 'The payout was stopped in time',
  },
}

export const TOP_UP_TEXTS: RowTexts = {
  jobs: {
    'top_up.create': {
      done: 'Asked for the money',
      to_do: 'ask for the money',
      doing: 'Asking for the money',
    },
  },
  events: {
    'top_up.created': 'Top-up requested',
    'top_up.succeeded': 'The money is in the balance',
    'top_up.failed': 'The money did not come',
    'top_up.canceled': 'The top-up was canceled before the money came',
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
      done: 'Made a link for the person',
      to_do: 'make a link for the person',
      doing: 'Making a link for the person',
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
