// The registry: whose notifications are taken.
import { stripeNotifications } from './stripe.ts'

export const NOTIFICATION_ROUTES = [stripeNotifications]
