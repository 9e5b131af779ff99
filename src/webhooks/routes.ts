// The registry of notification routes, one per provider.
import { emailNotifications } from './email.ts'
import { stripeNotifications } from './stripe.ts'
import { twilioNotifications } from './twilio.ts'

export const NOTIFICATION_ROUTES = [stripeNotifications, twilioNotifications, emailNotifications]
