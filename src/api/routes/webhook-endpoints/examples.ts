// How webhook endpoints look in the examples of the OpenAPI document.

export const SECRET = ['whsec', 'MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'].join('_')
