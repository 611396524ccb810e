// Package deploy runs the image and the compose stack of deploy/ on a real container engine.
package deploy
