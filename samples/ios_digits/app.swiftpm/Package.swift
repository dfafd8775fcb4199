// swift-tools-version: 5.8
import AppleProductTypes
import PackageDescription

let package = Package(
    name: "DigitsApp",
    platforms: [.iOS("16.0")],
    products: [
        .iOSApplication(
            name: "Digits",
            targets: ["App"],
            bundleIdentifier: "dev.edgec.samples.digits",
            displayVersion: "1.0",
            bundleVersion: "1",
            supportedDeviceFamilies: [.phone, .pad],
            supportedInterfaceOrientations: [.portrait]
        )
    ],
    dependencies: [.package(name: "Digits", path: "../digits")],
    targets: [
        .executableTarget(
            name: "App",
            dependencies: [.product(name: "Digits", package: "Digits")],
            path: "Sources"
        )
    ]
)
