// Why an operator does something to jobs, in their words.
import { z } from 'zod'

export const LONGEST_REASON = 1000
export const reasonText = z.string().trim().min(1).max(LONGEST_REASON)
