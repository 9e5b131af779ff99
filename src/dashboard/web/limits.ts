// What the server takes, as fields say it before anybody asks.
export const LEAST_PASSWORD = 12
export const LONGEST_NAME = 255
