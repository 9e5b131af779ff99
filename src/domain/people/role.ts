// The roles of members.
import { z } from 'zod'

/** From the most to the least rights. */
export const ROLES = ['owner', 'admin', 'developer', 'support', 'read-only'] as const
export const roleSchema = z.enum(ROLES)
export type MemberRole = (typeof ROLES)[number]
