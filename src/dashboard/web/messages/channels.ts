// Labels of the message channels.
import type { Channel } from '#sdk/index.ts'

export const CHANNEL_LABELS: Record<Channel, string> = { email: 'Email', sms: 'SMS' }
export const CHANNELS = Object.entries(CHANNEL_LABELS).map(([value, label]) => ({ value, label }))
