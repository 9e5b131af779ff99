// An operator's reason for an act, as free text.
import { z } from 'zod'

export const MAX_REASON_LENGTH = 1000
export const reasonText = z.string().trim().min(1).max(MAX_REASON_LENGTH)
