// Who sends messages in tests that send none: nobody is there.

/** The variables without which the API accepts no messages. */
export const MESSAGE_SENDERS = {
  SMTP_URL: 'smtp://127.0.0.1:9',
  EMAIL_FROM: 'Shop <mail@shop.example>',
  TWILIO_ACCOUNT_SID: `AC${'0'.repeat(32)}`,
  TWILIO_AUTH_TOKEN: 'token',
  TWILIO_FROM: '+15005550006',
}
