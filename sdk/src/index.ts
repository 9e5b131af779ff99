// The public API of `@sluice/sdk`.
export type { Answer, Received } from './answer.ts'
export type { RequestOptions, SluiceOptions } from './client.ts'
export {
  SluiceConnectionError,
  SluiceError,
  SluiceSignatureError,
  SluiceTimeoutError,
  type SluiceErrorCode,
} from './errors.ts'
export type { FollowOptions } from './feed.ts'
export type * from './generated/events.ts'
export type * from './generated/schemas.ts'
export type { Page, Pages } from './pages.ts'
export { Sluice } from './sluice.ts'
export { verifyWebhook, type WebhookHeaders } from './webhooks.ts'
