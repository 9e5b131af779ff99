// The registry of providers whose notifications are received.
import { stripeNotifications } from './stripe.ts'

export const NOTIFICATION_ROUTES = [stripeNotifications]
