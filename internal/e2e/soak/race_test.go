//go:build soak && race

package soak

const raceDetector = true
