// What the members of a tenant may be.
import { z } from 'zod'

/** From the one who may do most to the one who may do least. */
export const ROLES = ['owner', 'admin', 'developer', 'support', 'read-only'] as const
export const roleSchema = z.enum(ROLES)
export type MemberRole = (typeof ROLES)[number]
