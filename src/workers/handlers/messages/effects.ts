// The step that settles a message.
import { settleMessages, type MessageSettlement } from '#domain/messages/settle.ts'
import { nothingReportedOfMessage, type MessageTold } from '#domain/messages/told.ts'
import { settling, type Told } from '../../settle.ts'

/** What has left is settled a few at a time: the statement costs far more than one more message in it. */
const GATHER_MS = 20

export const settlingMessage = settling<Told<MessageSettlement>>(
  'settle_message',
  settleMessages,
  ({ told }) => told.message_id,
  { gather_ms: GATHER_MS },
)

export type MessageIds = { tenant_id: string; message_id: string }

/** Settles a message with what its call reported. */
export function tell(ids: MessageIds, told: Pick<MessageTold, 'said'> & Partial<MessageTold>) {
  return settlingMessage({
    told: { ...nothingReportedOfMessage, ...ids, ...told },
    notification_id: null,
    happened_at: null,
  })
}
