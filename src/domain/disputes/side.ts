// A dispute as one side of a comparison with the processor.
import { z } from 'zod'
import { disputeStatus } from './dispute.ts'
import { AMOUNT_SIDE } from '../reconciliation/side.ts'

const moved = (description: string) => z.int().nullish().meta({ description, example: 0 })

export const disputeSide = z.object({
  ...AMOUNT_SIDE,
  amount_withdrawn_minor: moved('What was taken from the balance; of disputes only.'),
  amount_reinstated_minor: moved('What of it came back; of disputes only.'),
})

/** Its statuses are the processor's, in our words. */
export const disputeAgrees = Object.fromEntries(disputeStatus.options.map((status) => [status, [status]]))
