// A dispute as one side of a comparison with the processor.
import { z } from 'zod'
import { AMOUNT_SIDE } from '../reconciliation/side.ts'

const moved = (description: string) => z.int().nullish().meta({ description, example: 0 })

export const disputeSide = z.object({
  ...AMOUNT_SIDE,
  amount_withdrawn_minor: moved('What was taken from the balance; of disputes only.'),
  amount_reinstated_minor: moved('What of it came back; of disputes only.'),
})
