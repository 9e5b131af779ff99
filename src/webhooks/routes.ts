// The registry of providers whose notifications are received.
import { emailNotifications } from './email.ts'
import { stripeNotifications } from './stripe.ts'
import { twilioNotifications } from './twilio.ts'

export const NOTIFICATION_ROUTES = [stripeNotifications, twilioNotifications, emailNotifications]
